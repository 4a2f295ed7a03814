// The scope of a trace: every frame of the thread is evaluated by the tracer, until the scope ends. Generators that the
// trace left suspended are closed then, without any code of the program.
#pragma once

#include <set>

#include "capture/python/hook/hook.h"
#include "capture/python/object.h"

namespace vesta::capture {

class Tracer;

class TracerScope final : public FrameReceiver {
 public:
  explicit TracerScope(Tracer& tracer);
  ~TracerScope() override;
  TracerScope& operator=(TracerScope&&) = delete;  // neither copied nor moved
  PyObject* receive(PyThreadState* t, Frame* f, int throwflag) override;

 private:
  struct ByPointer {
    bool operator()(const Object& a, const Object& b) const { return a.get() < b.get(); }
  };
  PyObject* trace_frame(PyThreadState* t, Frame* f, int throwflag);
  void remember_generator(PyObject* generator);
  void close_generators();

  Tracer& tracer_;
  Tracer* outer_;
  // Weak references to the generators that frames of the trace belong to.
  std::set<Object, ByPointer> generators_;
  const TraceHookScope hook_;  // the last member: it ends first
};

// The tracer of the calling thread's innermost scope; nullptr: there is none.
Tracer* tracing();

}  // namespace vesta::capture
