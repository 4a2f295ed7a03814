// The sizes of an artifact's runs. Where steps return integers, a run learns its sizes in parts: first those up to the
// first such step, then, with what it returned, those up to the next.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "artifact/returned.h"
#include "runtime/input_check.h"
#include "runtime/resolve.h"

namespace vesta::runtime {

// Keeps the results for the last few assignments of symbols, and after each part of a run the part that followed it
// last. Thread-safe.
class Resolver {
 public:
  Resolver(const artifact::Artifact& artifact, Schemas schemas);

  // The only one of a static artifact; otherwise nullptr.
  const std::shared_ptr<const Resolved>& only() const { return only_; }
  // For the begin of a run. Symbols that shape nothing may have other values in the result.
  std::shared_ptr<const Resolved> first(std::span<const int64_t> symbols);
  // After the last step of `now` has run, with the symbols that it has defined.
  std::shared_ptr<const Resolved> next(const Resolved& now, std::span<const int64_t> symbols) const;

 private:
  const artifact::Artifact& artifact_;
  const artifact::Definitions definitions_;
  const ShapingSymbols shaping_;
  const Schemas schemas_;
  std::shared_ptr<const Resolved> only_;
  struct Recent;
  std::atomic<std::shared_ptr<const Recent>> recent_{nullptr};
};

// The sizes of one run.
class Sizes {
 public:
  Sizes(Resolver& resolver, const InputCheck& check, const CallInputs& in) : resolver_(resolver) {
    now_ = resolver.only().get();
    if (now_) return;
    check.read_symbols(in, symbols_);
    hold(resolver.first(symbols_));
  }
  const Resolved& now() const { return *now_; }
  // The values of the run's symbols; 0: not known yet.
  std::span<const int64_t> symbols() const { return symbols_; }
  // The sizes as an object that may outlive the run.
  std::shared_ptr<const Resolved> share() const { return held_ ? held_ : resolver_.only(); }
  // Calls Resolver::next(). References from now() end.
  void define(std::span<const int64_t> symbols) {
    symbols_.assign(symbols.begin(), symbols.end());
    hold(resolver_.next(*now_, symbols_));
  }

 private:
  void hold(std::shared_ptr<const Resolved> r) {
    held_ = std::move(r);
    now_ = held_.get();
  }
  Resolver& resolver_;
  SymbolValues symbols_;
  const Resolved* now_;
  std::shared_ptr<const Resolved> held_;
};

}  // namespace vesta::runtime
