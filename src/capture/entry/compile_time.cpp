#include "capture/entry/compile_time.h"

#include "base/stopwatch.h"
#include "base/totals.h"

namespace vesta::capture {
namespace {
thread_local CompileTime* outermost = nullptr;
}  // namespace

CompileTime::CompileTime() {
  if (!outermost) outermost = this;
}

CompileTime::~CompileTime() {
  if (outermost == this) outermost = nullptr;
}

CompileTime::Clock::time_point CompileTime::end(int64_t deadline_ms) const {
  const Clock::time_point end = end_of_wait(deadline_ms);
  return deadline_ms < 0 ? end : end - outermost->spent_;
}

double CompileTime::add_since(Clock::time_point begin) {
  const Clock::duration spent = Clock::now() - begin;
  outermost->spent_ += spent;
  totals::of(totals::Count::WaitedNanoseconds).add(std::chrono::nanoseconds(spent).count());
  return std::chrono::duration<double, std::milli>(spent).count();
}

}  // namespace vesta::capture
