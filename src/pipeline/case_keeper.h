// A case keeper keeps every compile of the process that begins between its start() and its stop(), as a case (case.h)
// in a file.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/case.h"

namespace vesta::pipeline {

// Which compiles a keeper keeps when they have ended. One that has not ended is always kept.
struct Kept {
  bool only_failed = false;
  double slower_than_ms = -1;  // negative: of any duration
  bool holds(const Case& c) const;
};

// Thread-safe. The file is written when a compile begins and when it has ended, so it has the one that takes the
// process with it, or never ends.
class CaseKeeper {
 public:
  // `path` empty: no file. Throws UserError if the file cannot be written.
  static std::shared_ptr<CaseKeeper> start(std::string path, Versions versions, Kept kept);
  // Compiles that begin later are not recorded. Those that still run are completed when they end.
  void stop();
  // The texts (case.h) of the compiles that are kept.
  std::vector<std::string> cases() const;

  static bool any() { return any_.load(std::memory_order_relaxed); }

 private:
  friend class KeptCase;
  CaseKeeper(std::string path, Versions versions, Kept kept)
      : path_(std::move(path)), versions_(std::move(versions)), kept_(kept) {}
  size_t add(const std::string& text);
  void complete(size_t index, const Case& c);
  std::string write() const;  // why it failed; empty: it did not

  static inline std::atomic<bool> any_{false};
  const std::string path_;
  const Versions versions_;
  const Kept kept_;
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;  // by compile; empty: not kept
};

// One compile, in every keeper that exists when it begins.
class KeptCase {
 public:
  KeptCase(const graph::Graph& graph, const Options& options, const Traced& traced, const Target& target);
  void ended(const CompileReport& report);
  void failed(const std::exception_ptr& error);

 private:
  void complete();
  Case case_;
  std::vector<std::pair<std::shared_ptr<CaseKeeper>, size_t>> places_;
};

}  // namespace vesta::pipeline
