// Functionalization: which values share memory, and what a write to one means for the others.
//
// Each traced tensor is a pair of a Storage and a chain of views on it. The storage knows its current contents (`base`,
// an SSA value) and counts writes. A read of a tensor whose storage was written since replays the chain on the new
// contents. A write goes back through the chain by the views' inverses and gives new contents. Guarantees that the
// graph contains neither writes nor aliases.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "graph/graph.h"

namespace vesta::trace {

struct Storage {
  graph::Value* base = nullptr;
  uint32_t version = 0;
  int input = -1;                   // the graph input that owns this memory
  graph::Value* initial = nullptr;  // the value of the input
  bool counts_writes = false;       // an operator wrote to it by a tensor that has the version counter of its owner
  bool is_given = false;            // the program has made it the memory of an input (tensor.data = ...)
  // The memory of a small at::empty, which code may fill through its pointer, as torch::tensor does (backing.h).
  at::Tensor backing;
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
  graph::Value* value = nullptr;  // the contents of its memory at `version`
  uint32_t version = 0;
  ConjNegBits conj_neg;
  graph::Value* shown = nullptr;  // `value` with the pending conj and neg bits applied, once it is needed
  bool made_storage = false;      // the storage was made for this tensor; other tensors view it
};

class Recorder;

// The tensor's current value.
graph::Value* read(Recorder& r, Alias& a);
// The contents of its memory, which are the tensor's value if no bits are pending.
graph::Value* read_memory(Recorder& r, Alias& a);
// Makes `value` the tensor's contents. It has exactly the tensor's type.
void write(Recorder& r, Alias& a, graph::Value* value);
// `value` with the given dtype, sizes (by broadcasting) and strides: itself, or a copy in the type's layout. `into` is
// a value of that type.
graph::Value* conform(Recorder& r, graph::Value* value, graph::Value* into);
// Converts an offset in elements of type `from` to elements of type `to`.
Expr convert_offset(Expr offset, DType from, DType to);

}  // namespace vesta::trace
