// The evaluation hook of CPython (PEP 523). It is set while a scope of any thread wants it, and hands frames of that
// thread to the scope's receiver; every other frame goes where it went before. A hook that was set by others stays in
// use for frames that no scope of ours takes. Nothing here knows what receivers do with a frame.
#pragma once

#include "capture/python/frame/frame.h"

namespace vesta::capture {

class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;
  // Whether a SelectingScope hands it this frame, which has run no instruction yet.
  virtual bool wants(Frame*) { return true; }
  // What an evaluation hook does: runs the frame, and returns its result or nullptr with an error set.
  virtual PyObject* receive(PyThreadState* t, Frame* f, int throwflag) = 0;
};

// The first frame of the calling thread that arrives while this lives goes to the receiver; no later one does.
class HookScope {
 public:
  // `code`: only a frame of this code; nullptr: any.
  HookScope(FrameReceiver& receiver, PyCodeObject* code);
  ~HookScope();
  HookScope& operator=(HookScope&&) = delete;  // neither copied nor moved

 private:
  friend PyObject* evaluation_hook(PyThreadState*, Frame*, int);
  FrameReceiver* receiver_;
  PyCodeObject* code_;
  HookScope* outer_;
};

// Each frame of the calling thread that the receiver wants goes to it, but for those that begin while it has one.
class SelectingScope {
 public:
  explicit SelectingScope(FrameReceiver& receiver);
  ~SelectingScope();
  SelectingScope& operator=(SelectingScope&&) = delete;  // neither copied nor moved

 private:
  FrameReceiver* outer_;
};

// Every frame of the calling thread goes to the receiver: the thread is tracing.
class TraceHookScope {
 public:
  explicit TraceHookScope(FrameReceiver& receiver);
  ~TraceHookScope();
  TraceHookScope& operator=(TraceHookScope&&) = delete;  // neither copied nor moved

 private:
  FrameReceiver* outer_;
};

// No frame of the calling thread goes to a receiver.
class HookOff {
 public:
  HookOff();
  ~HookOff();
  HookOff& operator=(HookOff&&) = delete;  // neither copied nor moved
};

// A TraceHookScope of the calling thread is alive.
bool is_tracing();
// Runs a frame in a trace without tracing it. CPython's own evaluator would let other threads run.
PyObject* evaluate_untraced(PyThreadState* t, Frame* f, int throwflag);

}  // namespace vesta::capture
