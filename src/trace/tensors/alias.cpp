#include "trace/tensors/alias.h"

#include "base/check.h"
#include "trace/recorder.h"
#include "trace/tensors/backing.h"

namespace vesta::trace {
namespace {

graph::Value* replay(Recorder& r, const View* view, graph::Value* base) {
  if (!view) return base;
  std::vector<graph::Arg> args = view->args;
  args[view->source] = replay(r, view->parent.get(), base);
  return r.add_node(*view->op, std::move(args), {view->type})->results.at(0);
}

// Applies pending bits. Conjugation and negation are their own inverses, so this maps memory to what a tensor shows,
// and `value` to what its memory must hold.
graph::Value* done(Recorder& r, graph::Value* value, ConjNegBits conj_neg) {
  if (conj_neg.conj) value = r.emit("aten::conj_physical", {value});
  if (conj_neg.neg) value = r.emit("aten::neg", {value});
  return value;
}

// The contents of the storage after `value` was written through the view.
graph::Value* write_back(Recorder& r, const View* view, graph::Value* base, graph::Value* value) {
  if (!view) return value;
  graph::Value* source = replay(r, view->parent.get(), base);
  const graph::OpRow* row = view->op->row;
  graph::Value* written = nullptr;
  if (row && row->inverse) {
    std::vector<graph::Arg> args = view->args;
    args[view->source] = source;
    graph::Builder b(r.graph());
    b.source = r.source_of_node();
    written = row->inverse(b, graph::NodeArgs(view->op->schema, args), source, value);
  }
  if (!written) VESTA_UNSUPPORTED("writing through a view made by {}", view->op->name);
  return write_back(r, view->parent.get(), base, conform(r, written, source));
}

}  // namespace

graph::Value* read_memory(Recorder& r, Alias& a) {
  if (a.storage->backing.defined()) take_backing(r, *a.storage);
  if (a.version != a.storage->version) {
    a.value = replay(r, a.view.get(), a.storage->base);
    a.version = a.storage->version;
    a.shown = nullptr;
  }
  return a.value;
}

graph::Value* read(Recorder& r, Alias& a) {
  graph::Value* memory = read_memory(r, a);
  if (!a.conj_neg.any()) return memory;
  if (!a.shown) a.shown = done(r, memory, a.conj_neg);
  return a.shown;
}

void write(Recorder& r, Alias& a, graph::Value* value) {
  Storage& s = *a.storage;
  r.refuse_write(s);
  r.checkpoints.note_write(s.input >= 0, s.base->id);
  graph::Value* memory = value;
  if (a.conj_neg.any()) {
    graph::Value* old = read_memory(r, a);
    memory = conform(r, done(r, value, a.conj_neg), old);
  }
  s.base = conform(r, write_back(r, a.view.get(), s.base, memory), s.base);
  ++s.version;
  if (s.backing.defined()) forbid_backing(s);
  a.value = a.view ? memory : s.base;
  a.shown = value;
  a.version = s.version;
}

Expr convert_offset(Expr offset, DType from, DType to) {
  if (element_size(from) == element_size(to)) return offset;
  const Expr bytes = offset * Expr(element_size(from)), unit = Expr(element_size(to));
  const Expr out = floordiv(bytes, unit);
  if (out * unit != bytes) VESTA_UNSUPPORTED("a view as another type that may start inside an element");
  return out;
}

graph::Value* conform(Recorder& r, graph::Value* value, graph::Value* into) {
  const graph::TensorType& want = into->type;
  if (value->type == want) return value;
  if (value->type.device != want.device && value->type.dim() != 0)
    VESTA_UNSUPPORTED("a write that moves data between devices");
  return r.add_node(graph::get_op("aten::copy"), {into, value, false}, {want})->results.at(0);
}

}  // namespace vesta::trace
