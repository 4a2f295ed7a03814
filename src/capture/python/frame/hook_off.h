// A scope in which the evaluation hook leaves every frame of the thread to CPython: what runs inside is no part of the
// program that is traced.
#pragma once

namespace vesta::capture {

class HookOff {
 public:
  HookOff() { ++depth_; }
  ~HookOff() { --depth_; }
  HookOff(const HookOff&) = delete;
  HookOff& operator=(const HookOff&) = delete;
  static bool active() { return depth_ > 0; }

 private:
  inline static thread_local int depth_ = 0;
};

}  // namespace vesta::capture
