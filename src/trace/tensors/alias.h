// Functionalisation: which values share memory, and what a write to one means for the others.
//
// Each traced tensor is a pair of a Storage and a chain of views on it. The storage knows its present contents (`base`,
// an SSA value) and counts writes. Reading a tensor whose storage was written since replays the chain on the new
// contents; writing to it goes back through the chain by the views' inverses and yields new contents. The graph sees
// neither.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "graph/graph.h"

namespace vesta::trace {

struct Storage {
  graph::Value* base = nullptr;
  uint32_t version = 0;
  int input = -1;                   // the graph input whose memory this is
  graph::Value* initial = nullptr;  // the input's value
  // The memory behind a small at::empty, which code may fill through its pointer (torch::tensor does): see backing.h.
  at::Tensor backing;
  int tape_index = -1;  // of the tensor that was given it
};

// One view operator applied to the tensor that `parent` shows (nullptr: the whole storage).
struct View {
  std::shared_ptr<const View> parent;
  const graph::Op* op = nullptr;
  std::vector<graph::Arg> args;  // args[source] is replaced when the view is replayed
  size_t source = 0;
  graph::TensorType type;
};

struct Alias {
  std::shared_ptr<Storage> storage;
  std::shared_ptr<const View> view;
  graph::Value* value = nullptr;  // what its memory held at `version`
  uint32_t version = 0;
  Pending pending;
  graph::Value* shown = nullptr;  // `value` with what is pending done, if anyone has asked
  bool made_storage = false;      // the tensor that the storage was made for; other ones show it
};

class Recorder;

// The tensor's present value.
graph::Value* read(Recorder& r, Alias& a);
// What its memory holds: the same where nothing is pending.
graph::Value* read_memory(Recorder& r, Alias& a);
// Makes `value`, which has exactly the tensor's type, the tensor's contents.
void write(Recorder& r, Alias& a, graph::Value* value);
// `value` in the given dtype, sizes (by broadcasting) and strides: itself, or a copy into the type's layout. `into` is
// a value of that type.
graph::Value* conform(Recorder& r, graph::Value* value, graph::Value* into);
// An offset in elements of type `from` in elements of type `to`.
Expr convert_offset(Expr offset, DType from, DType to);

}  // namespace vesta::trace
