#include "loops/update.h"

#include "loops/ops/rows.h"

namespace vesta::loops {

namespace {

const UpdateForm* form_of(const Node& node) {
  const LoweringRow* row = find_lowering(node);
  return row ? row->update : nullptr;
}

const Value* source_of(const Node& node, const UpdateForm& form, size_t piece) {
  if (form.pieces) return form.pieces(node).at(piece).source;
  auto* v = std::get_if<Value*>(&node.args()[form.source]);
  return v ? *v : nullptr;
}

Written written(const Node& node, size_t piece) {
  const UpdateForm* form = form_of(node);
  if (!form) return "writes at computed places";
  if (node.results.size() != 1 || !node.results[0]) return "several results";
  if (form->pieces) {
    const std::vector<Piece> pieces = form->pieces(node);
    return piece < pieces.size() ? Written(each_once(pieces[piece].sizes)) : "no pieces";
  }
  const Value* source = source_of(node, *form, piece);
  const graph::TensorType& x = node.input(0)->type;
  if (is_complex(x.dtype)) return "complex numbers";
  if (source && source->type.dtype != x.dtype) return "writes elements of another type";
  Written w = form->written(node, source);
  if (auto* u = std::get_if<Update>(&w)) {
    if (const auto combine = find_lowering(node)->combine) u->combine = combine;
    if (u->combine && x.dtype == DType::Bool) return "sums of bool";
    // ATen computes these sums in float32; here the buffer's type would round each step.
    const bool rounds = u->combine == Prim::Add || u->combine == Prim::Mul;
    if (rounds && is_narrow(x.dtype) && form->rounds_each) return "sums in half precision";
  }
  return w;
}

}  // namespace

Update each_once(std::vector<Expr> sizes) {
  Update u;
  u.ordered.assign(sizes.size(), false);
  u.sizes = std::move(sizes);
  return u;
}

Reads no_indices(const Node&, Lowering::Index) { return {}; }

bool may_come_in_pieces(const Node& node) {
  const UpdateForm* form = form_of(node);
  return form && form->pieces;
}

std::vector<Piece> pieces_of(const Node& node) {
  const UpdateForm* form = form_of(node);
  return form && form->pieces ? form->pieces(node) : std::vector<Piece>();
}

std::optional<Update> update_of(const Node& node, std::string* why, size_t piece) {
  Written w = written(node, piece);
  if (auto* u = std::get_if<Update>(&w)) return std::move(*u);
  if (why) *why = std::get<const char*>(w);
  return std::nullopt;
}

bool adds_in_any_order(const Node& node) {
  const std::optional<Update> update = update_of(node);
  return update && update->combine == Prim::Add && adds_atomically(node.input(0)->type.dtype);
}

Reads update_reads(const Node& node, std::span<const Expr> at, size_t piece) {
  const UpdateForm& form = *form_of(node);
  Reads reads = form.indices(node, at);
  if (const Value* source = source_of(node, form, piece))
    reads.emplace_back(source, broadcast_index(at, source->type.sizes));
  return reads;
}

void Lowering::update(const Node& node, Index at, const MemoryRef& to, size_t piece) {
  const UpdateForm& form = *form_of(node);
  const DType own = node.results[0]->type.dtype, t = opmath(own);
  const Reads reads = update_reads(node, at, piece);
  const Expr offset = offset_of(to, form.place(*this, node, at, reads, piece));
  ScalarRef v = source_of(node, form, piece) ? element(reads.back().first, reads.back().second)
                                             : dag_.cast(t, number(node.args()[form.source], own));
  if (node.op->schema.index_of("alpha") >= 0) {
    const graph::Arg& alpha = node.named().get("alpha");
    const Expr* one = std::get_if<Expr>(&alpha);
    if (!one || !one->is_constant(1)) v = dag_.bin(Prim::Mul, v, dag_.cast(t, number(alpha, t)));
  }
  if (manner_.adds_atomically && adds_in_any_order(node)) {
    dag_.store_add(to.buffer, offset, v);
    computed(&node);
    return;
  }
  if (const std::optional<Prim> combine = update_of(node)->combine) {
    dag_.access_in_order(to.buffer);
    v = dag_.bin(*combine, dag_.cast(t, dag_.load(to.buffer, offset)), v);
  }
  dag_.store(to.buffer, offset, v);
  computed(&node);
}

}  // namespace vesta::loops
