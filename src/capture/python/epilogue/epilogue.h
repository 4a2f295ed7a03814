// How a segment leaves its frame: the objects that are made, what of, and the writes to objects that existed before.
// Data alone: builder.h writes it at the end of a trace, reconstruct.h and writes.h execute it after each run.
#pragma once

#include <cstdint>
#include <vector>

#include "capture/python/object.h"

namespace vesta::capture {

enum class Make : uint8_t {
  Null,
  Constant,  // object
  Source,    // number `index` of `needed`
  Output,    // of the graph: number `index`
  Tuple,     // parts
  List,
  Set,
  FrozenSet,
  Dict,  // parts: key, value, key, value ...
  OrderedDict,
  StructSequence,  // object: class; parts: every field
  Slice,           // parts: start, stop, step
  Cell,            // parts: contents (Null: empty)
  Function,      // object: code; parts: globals, qualified name, defaults, kwdefaults, closure, dict, annotations, type
                 // params, name, doc, module
  Method,        // parts: function, self
  Instance,      // object: class; parts: the payload of its C base (or Null), its __dict__ items key, value ...
  Call,          // parts: callable, arguments
  Subclass,      // parts: tensor, class, attributes (a dict): a tensor of a subclass
  DictIterator,  // index: steps done; object: the name of dict's method; parts: the dict
  CallState,     // parts: callable, arguments, state, items to append, pairs to set: as __reduce__ gives them
};

struct Reconstruction {
  Make make;
  int index = 0;
  PyObject* object = nullptr;  // kept by the epilogue
  std::vector<int> parts;
};

enum class Write : uint8_t {
  DictSet,  // target[key] = value, in the dict's own storage
  DictDelete,
  DictAssign,  // the dict is cleared; parts are its new keys and values
  ListAppend,  // parts
  ListAssign,
  SetAssign,
  Cell,              // value may be Null
  Member,            // `offset` bytes into the target
  Gradient,          // target.grad = value
  RequiresGrad,      // target.requires_grad = value
  Data,              // target.data = value
  RetainedGradient,  // target.grad = value, of a target that is no leaf and retains its gradient from now on
  Hook,              // target.register_hook(value)
  NodeHook,          // target.grad_fn.register_hook(value)
  Call,              // target(*value, **key), for what the call counts; its result is known
};

struct SideEffect {
  Write write;
  int target;
  int key = -1;
  int value = -1;
  int offset = 0;
  std::vector<int> parts;
};

struct Epilogue {
  enum class Kind : uint8_t { Return, Break } kind = Kind::Return;
  std::vector<Reconstruction> reconstructions;
  int result = -1;                          // Return
  int position = 0;                         // the RETURN instruction, or the one that breaks
  std::vector<std::pair<int, int>> locals;  // Break: slot, reconstruction; other slots stay as they are
  std::vector<int> stack;                   // Break: the whole value stack
  std::vector<SideEffect> effects;
  std::vector<int> needed;   // sources that are read when the guards have held
  std::vector<Object> kept;  // owns the objects of the reconstructions
  // Objects of the reconstructions that the variant knows by weak references: each call owns them while it runs.
  std::vector<PyObject*> watched;
};

}  // namespace vesta::capture
