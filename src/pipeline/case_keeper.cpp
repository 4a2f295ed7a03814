#include "pipeline/case_keeper.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <tuple>

#include "base/at_fork.h"
#include "base/cancel.h"
#include "base/log.h"

namespace vesta::pipeline {
namespace {

// Never destroyed: compiles end while the process exits.
struct Active {
  std::mutex mutex;
  std::vector<std::shared_ptr<CaseKeeper>> keepers;

  // The child of a fork has no keepers: the file is its parent's.
  static std::atomic<Active*>& place() {
    static auto* const p = new std::atomic<Active*>(new Active);
    return *p;
  }
};
const AtFork at_fork(ForkStage::Registries, nullptr, nullptr, [] { Active::place() = new Active; });
Active& active() { return *Active::place(); }

// The class of an error, as Python's names have it.
std::pair<std::string, std::string> described(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const NeedsValue& e) {
    return {"NeedsValue", e.what()};
  } catch (const Unsupported& e) {
    return {"Unsupported", e.what()};
  } catch (const UserError& e) {
    return {"UserError", e.what()};
  } catch (const InternalError& e) {
    return {"InternalError", e.what()};
  } catch (const std::bad_alloc&) {
    return {"MemoryError", "no memory is left"};
  } catch (const std::exception& e) {
    return {"RuntimeError", e.what()};
  } catch (...) {
    return {"RuntimeError", "an error of an unknown class"};
  }
}

}  // namespace

bool Kept::holds(const Case& c) const {
  if (c.outcome == Outcome::Unfinished || (!only_failed && slower_than_ms < 0)) return true;
  if (c.outcome == Outcome::Failed) return true;
  return slower_than_ms >= 0 && c.total_ms > slower_than_ms;
}

std::shared_ptr<CaseKeeper> CaseKeeper::start(std::string path, Versions versions, Kept kept) {
  std::shared_ptr<CaseKeeper> made(new CaseKeeper(std::move(path), std::move(versions), kept));
  if (const std::string why = made->write(); !why.empty())
    throw UserError(fmt::format("cannot write {}: {}", made->path_, why));
  Active& all = active();
  const std::lock_guard lock(all.mutex);
  all.keepers.push_back(made);
  any_ = true;
  return made;
}

void CaseKeeper::stop() {
  Active& all = active();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.keepers, [&](const auto& k) { return k.get() == this; });
  any_ = !all.keepers.empty();
}

std::vector<std::string> CaseKeeper::cases() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const std::string& text : texts_)
    if (!text.empty()) out.push_back(text);
  return out;
}

size_t CaseKeeper::add(const std::string& text) {
  size_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    index = texts_.size();
    texts_.push_back(text);
  }
  if (const std::string why = write(); !why.empty()) log::warn_once(fmt::format("cannot write {}: {}", path_, why));
  return index;
}

void CaseKeeper::complete(size_t index, const Case& c) {
  {
    const std::lock_guard lock(mutex_);
    texts_[index] = kept_.holds(c) ? to_text(c) : std::string();
  }
  if (const std::string why = write(); !why.empty()) log::warn_once(fmt::format("cannot write {}: {}", path_, why));
}

std::string CaseKeeper::write() const {
  if (path_.empty()) return {};
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const std::string text = to_text(versions_, cases());
  const std::string unfinished = fmt::format("{}.{}", path_, getpid());
  FILE* file = std::fopen(unfinished.c_str(), "wb");
  if (!file) return std::strerror(errno);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  if (written && closed && std::rename(unfinished.c_str(), path_.c_str()) == 0) return {};
  std::string why = std::strerror(errno);
  std::remove(unfinished.c_str());
  return why;
}

KeptCase::KeptCase(const graph::Graph& graph, const Options& options, const Traced& traced, const Target& target)
    : case_(make_case(graph, options, traced, target)) {
  const std::string text = to_text(case_);
  std::vector<std::shared_ptr<CaseKeeper>> keepers;
  {
    const std::lock_guard lock(active().mutex);
    keepers = active().keepers;
  }
  for (const auto& k : keepers) places_.emplace_back(k, k->add(text));
}

void KeptCase::complete() {
  for (const auto& [keeper, index] : places_) keeper->complete(index, case_);
}

void KeptCase::ended(const CompileReport& report) {
  case_.outcome = Outcome::Compiled;
  case_.stages = report.stages;
  case_.total_ms = report.total_ms;
  complete();
}

void KeptCase::failed(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Cancelled&) {
    return;  // it stays unfinished
  } catch (...) {
    case_.outcome = Outcome::Failed;
  }
  std::tie(case_.error_kind, case_.error) = described(error);
  complete();
}

}  // namespace vesta::pipeline
