// One trace of a segment: the rooms that know what the program read and wrote. `Tracer` (tracer.h) feeds it with the
// instructions of the frame.
//
// The rooms of one trace refer to each other through it: a dict's item is tracked (Tracker), which makes a guard
// (GuardRecorder) and may give a fake tensor (FakeTensors) or a symbolic scalar (NumberModel).
//
// Guarantees: objects that existed before the trace have a source in `sources`; each write to one is in `log`; after a
// graph break every room answers with an error, and nothing more is recorded. Only the thread that made the trace may
// use it.
#pragma once

#include <string_view>

#include "capture/python/interpreter/operations.h"
#include "capture/python/sources/source.h"
#include "capture/python/tracer/calls/calls.h"
#include "capture/python/tracer/container_items.h"
#include "capture/python/tracer/container_model.h"
#include "capture/python/tracer/equality_model.h"
#include "capture/python/tracer/fake_tensors.h"
#include "capture/python/tracer/function_model.h"
#include "capture/python/tracer/guard_recorder.h"
#include "capture/python/tracer/made_objects.h"
#include "capture/python/tracer/number_model.h"
#include "capture/python/tracer/object_model.h"
#include "capture/python/tracer/operator_model.h"
#include "capture/python/tracer/progress.h"
#include "capture/python/tracer/trace_settings.h"
#include "capture/python/tracer/tracker.h"
#include "capture/python/tracer/undo_log.h"
#include "capture/python/tracer/variable_model.h"

namespace vesta::capture {

class Trace {
 public:
  Trace(Frame* root, const TraceSettings& settings);
  Trace& operator=(Trace&&) = delete;  // neither copied nor moved

  Frame* const root;
  const TraceSettings settings;
  SourceTable sources;
  UndoLog log;
  Operations python;  // what an instruction does without a trace
  Progress progress{*this};
  GuardRecorder guards{*this};
  Tracker tracker{*this};
  FakeTensors tensors{*this};
  NumberModel numbers{*this};
  ContainerModel containers{*this};
  ContainerItems items{*this};
  ObjectModel objects{*this};
  EqualityModel equality{*this};
  FunctionModel functions{*this};
  MadeObjects made{*this};
  VariableModel variables{*this};
  OperatorModel operators{*this};
  Calls calls{*this};

  bool ended() const { return progress.ended(); }
  // Ends the trace: nullptr with an error set. The first reason stays.
  PyObject* graph_break(Break why, std::string_view first = "", std::string_view second = "");
  PyObject* graph_break(Reason why) { return progress.graph_break(std::move(why)); }
  // The same where -1 is a failure.
  int fail(Break why, std::string_view first = "", std::string_view second = "");
  // Whether a torch operator may run now. Where torch's operators release the GIL in a trace (gil_is_held() is false),
  // another thread would see what the trace has written to the program's objects and not yet undone. False: the trace
  // has ended before the operator, at Break::OperatorAfterWrite.
  bool may_run_operator();
};

// Trace::may_run_operator() for an operation that is a torch operator if an operand is a tensor.
bool may_operate_on(Trace& trace, std::initializer_list<PyObject*> operands);

}  // namespace vesta::capture
