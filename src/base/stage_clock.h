// Measures one stage of a compile and reports it to everyone who wants to know: the caller, the totals and the events.
#pragma once

#include <string>
#include <string_view>

#include "base/events.h"
#include "base/stopwatch.h"
#include "base/totals.h"

namespace vesta {

class StageClock {
 public:
  explicit StageClock(std::string_view name) : name_(name), span_(events::Type::Stage, name) {}
  ~StageClock() {
    const auto ns = static_cast<int64_t>(watch_.milliseconds() * 1e6);
    totals::of(totals::ByName::StageNanoseconds, name_).add(ns);
    totals::of(totals::ByName::StageRuns, name_).add();
  }
  StageClock(const StageClock&) = delete;
  double milliseconds() const { return watch_.milliseconds(); }  // so far

 private:
  std::string name_;
  Stopwatch watch_;
  events::Span span_;
};

}  // namespace vesta
