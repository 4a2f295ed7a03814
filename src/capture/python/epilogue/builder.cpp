#include "capture/python/epilogue/builder.h"

#include "capture/python/functions/functions.h"
#include "capture/python/tensors/inner_backward.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture {

bool EpilogueBuilder::effects() {
  for (const UndoLog::Entry& e : trace_.log.entries())
    if (!writes_.describe(e)) return false;
  for (const Calls::CachedCall& c : trace_.calls.cached_calls) {
    epilogue.effects.push_back({Write::Call, objects.constant(c.function.get()),
                                c.keywords ? objects.constant(c.keywords.get()) : -1,
                                objects.constant(c.arguments.get())});
    writes_.texts.push_back("a hit of " + name_of_callable(c.function.get()));
  }
  return true;
}

// Hooks may hold tensors, whose histories have hooks.
bool EpilogueBuilder::hooks() {
  for (;;) {
    const std::vector<LaterHooks> all = later_hooks(objects.outputs);
    for (const LaterHooks& hooks : all) {
      repeat_hooks(hooks);
      objects.alive.push_back(hooks.tensor);
      if (hooks.functions.empty()) continue;
      const int target = objects.value(hooks.tensor.get());
      if (target < 0) return false;
      for (const Object& function : hooks.functions) {
        const int value = objects.value(function.get());
        if (value < 0) return false;
        epilogue.effects.push_back({hooks.of_node ? Write::NodeHook : Write::Hook, target, -1, value});
      }
    }
    if (all.empty()) return true;
  }
}

bool EpilogueBuilder::leave_by_return(PyObject* result, int position) {
  epilogue.kind = Epilogue::Kind::Return;
  epilogue.position = position;
  epilogue.result = objects.value(result);
  return epilogue.result >= 0 && effects() && hooks();
}

bool EpilogueBuilder::leave_by_break(int position) {
  epilogue.kind = Epilogue::Kind::Break;
  epilogue.position = position;
  PyCodeObject* code = code_of(root_);
  const int locals = code->co_nlocalsplus, closure = locals - code->co_nfreevars;
  for (int i = 0; i < locals; ++i) {
    if (trace_.variables.is_entry_value(i)) continue;
    PyObject* x = slot(root_, i);
    if (x && i >= closure && trace_.sources.find(x) < 0 && !trace_.made.contains(x)) {
      const int function = trace_.sources.find(function_of(root_));
      trace_.sources.know(x, trace_.sources.add(SourceKind::ClosureCell, function, i - closure));
    }
    const int v = objects.value(x);
    if (v < 0) return false;
    epilogue.locals.emplace_back(i, v);
  }
  for (int i = 0; i < depth_of(root_); ++i) {
    const int v = objects.value(slot(root_, locals + i));
    if (v < 0) return false;
    epilogue.stack.push_back(v);
  }
  return effects() && hooks();
}

}  // namespace vesta::capture
