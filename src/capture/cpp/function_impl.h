// What a compiled C++ function keeps: its variants, compiles that go on, and counts.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/events.h"
#include "base/totals.h"
#include "capture/cpp/function_variant.h"
#include "capture/cpp/make_variant.h"
#include "capture/entry/compile_account.h"
#include "capture/entry/eager_calls.h"
#include "pipeline/pipeline.h"
#include "trace/recorder.h"
#include "vesta/detail/function.h"

namespace vesta::detail {

using capture::functions::FunctionVariant;
using capture::functions::FunctionVariantList;

struct Function::Impl {
  capture::functions::FunctionInfo info;

  std::atomic<std::shared_ptr<const FunctionVariantList>> variants{std::make_shared<const FunctionVariantList>()};
  totals::Tally hits{totals::of(totals::Count::Hits)}, misses{totals::of(totals::Count::Misses)};
  capture::CompileAccount account;
  std::atomic<double> last_compile_ms{0};

  mutable std::mutex mutex;  // guards the members below and the order in which variants are published
  std::condition_variable compiled;
  std::set<std::pair<std::string, uint64_t>> compiling;  // now, and a call waits
  capture::EagerCalls eager_calls;
  std::vector<std::string> recompiles;
  size_t eager_variants = 0;
  std::atomic<int> late{0};                         // traces that were given up for lack of time or memory
  std::atomic<double> enough_ms{0};                 // the largest LateTrace::enough_ms() so far; 0: unknown
  uint64_t generation = 0;                          // counts calls of reset()
  using CallId = std::pair<std::string, uint64_t>;  // key and context
  // Compiles that go on in the background. Calls with their keys run eager until then.
  struct Pending {
    std::shared_ptr<FunctionVariant> variant;
    CallId id;
    std::string why;  // the list of recompiles gets it
    double waited_ms = 0;
    bool again = false;  // it is not the function's first compile
  };
  std::vector<Pending> pending;
  std::map<CallId, std::pair<std::string, std::exception_ptr>> failed;  // such compiles that failed

  // Counts and logs an eager call, and returns false, which run() returns for such a call. With the option `strict` it
  // throws `error` instead, or Unsupported if `error` is null.
  bool fall_back(const std::string& reason, std::exception_ptr error = nullptr) {
    if (info.options.strict) {
      if (error) std::rethrow_exception(error);
      throw Unsupported(fmt::format("{}: {}", info.name, reason));
    }
    return count_eager(reason);
  }

  bool count_eager(const std::string& reason) {
    std::lock_guard lock(mutex);
    eager_calls.count(info.name, reason);
    return false;
  }

  // Why the call cannot be compiled; empty if it can.
  std::string cannot_compile(const Call& call) const {
    for (size_t i = 0; i < call.tensors.size(); ++i) {
      const at::Tensor& t = call.tensors[i];
      if (const std::string why = trace::why_not_traced(t); !why.empty()) return fmt::format("input {} is {}", i, why);
      // A variant checks the keys, so they must be usual ones.
      if (!runtime::is_plain(t)) return fmt::format("input {} is a tensor with keys {}", i, c10::toString(t.key_set()));
    }
    return {};
  }

  std::shared_ptr<const FunctionVariant> find(uint64_t context, const Call& call) const {
    const std::shared_ptr<const FunctionVariantList> list = variants.load(std::memory_order_acquire);
    for (const auto& v : *list) {
      if (v->matches(context, call)) return v;
    }
    return nullptr;
  }

  void publish(std::shared_ptr<const FunctionVariant> v, uint64_t seen_generation, std::string why) {
    std::lock_guard lock(mutex);
    if (generation == seen_generation) publish_locked(std::move(v), std::move(why));
  }

  void publish_locked(std::shared_ptr<const FunctionVariant> v, std::string why) {
    const auto list = variants.load();
    auto next = std::make_shared<FunctionVariantList>(*list);
    if (!v->eager_reason.empty()) ++eager_variants;
    if (!list->empty()) {
      if (v->eager_reason.empty()) totals::of(totals::Count::Recompiles).add();
      if (events::is_on()) events::record(events::Type::Recompile, info.name, why);
      recompiles.push_back(std::move(why));
    }
    next->push_back(std::move(v));
    variants.store(std::move(next));
  }

  // Publishes what compiles in the background have made. False: nothing.
  bool take_finished() {
    std::lock_guard lock(mutex);
    bool any = false;
    for (size_t i = 0; i < pending.size();) {
      Pending& p = pending[i];
      try {
        if (!p.variant->pending->is_lost() && !p.variant->take_compiled()) {
          ++i;
          continue;
        }
        // This process compiles again what its parent's threads were compiling.
        if (!p.variant->pending) {
          account.compiled(std::max(0.0, p.variant->report.total_ms - p.waited_ms), p.again);
          publish_locked(std::move(p.variant), std::move(p.why));
          any = true;
        }
      } catch (const std::exception& e) {
        failed[p.id] = {e.what(), std::current_exception()};
      }
      pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return any;
  }
};

}  // namespace vesta::detail
