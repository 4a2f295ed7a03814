#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "codegen/llvm/emitter.h"

namespace vesta::codegen {

using llvm::Align;
using llvm::Value;
using loops::Instr;
using loops::kNoRef;
using loops::Ref;

namespace {
Align alignment(DType t) { return Align(static_cast<uint64_t>(element_size(t))); }
}  // namespace

// The address of element `rest` of a buffer, computed once, at the level where `rest` is known.
Value* Emitter::base_pointer(int buffer, Expr rest) {
  std::pair<int, uint64_t> key{buffer, rest.hash()};
  if (Value* known = find(&Scope::pointers, key)) return known;
  Value* pointer = buffers_[static_cast<size_t>(buffer)];
  if (!rest.is_constant(0)) {
    int level = shape_.level_of(rest);
    Value* offset = scalar(rest);
    at(level);
    llvm::Type* element = p_.memory_type(k_.buffers[static_cast<size_t>(buffer)].dtype, 1);
    pointer = b_.CreateGEP(element, pointer, offset);
    scopes_[scope_index(level)].pointers[key] = pointer;
  }
  return pointer;
}

// The mask of an instruction at this level. An instruction outside the innermost loop keeps its mask.
Value* Emitter::combined_mask(Ref mask, int u, int level) {
  if (mask == kNoRef) return mask_;
  Value* m = lanes(mask, u);
  at(level);
  return mask_ ? b_.CreateAnd(m, mask_) : m;
}

Value* Emitter::load_vector(llvm::Type* type, Value* pointer, int64_t align, Value* mask) {
  Align a(static_cast<uint64_t>(align));
  if (!mask) return b_.CreateAlignedLoad(type, pointer, a);
  return b_.CreateMaskedLoad(type, pointer, a, mask, llvm::Constant::getNullValue(type));
}

void Emitter::store_vector(Value* v, Value* pointer, int64_t align, Value* mask) {
  Align a(static_cast<uint64_t>(align));
  if (mask) {
    b_.CreateMaskedStore(v, pointer, a, mask);
  } else {
    b_.CreateAlignedStore(v, pointer, a);
  }
}

// Whether this store's vectors are aligned to their size and may be written past the caches. Only x86 has such stores
// that a plain fence orders.
bool Emitter::streams(const Instr& i, int64_t elements) const {
  if (!k_.buffers[static_cast<size_t>(i.buffer)].stream || !p_.target().streaming_stores || lanes_ == 1) return false;
  if (overlaps_) return false;
  const Expr start = substitute(i.index, [&](Expr symbol) { return symbol == shape_.lane ? Expr(0) : symbol; });
  return provably_divisible(start, elements) && elements * element_size(i.dtype) >= 16;
}

// The addresses of all lanes' elements.
Value* Emitter::lane_pointers(const Instr& i, int u) {
  llvm::Type* element = p_.memory_type(k_.buffers[static_cast<size_t>(i.buffer)].dtype, 1);
  int level = shape_.level_of(i.index);
  if (!shape_.is_vector(i.index)) {
    Value* pointer = base_pointer(i.buffer, i.index);
    at(level);
    return b_.CreateVectorSplat(static_cast<unsigned>(lanes_), pointer);
  }
  auto c = coefficient_of(i.index, shape_.lane);
  if (c && !shape_.is_vector(*c)) {
    Expr rest = i.index - *c * shape_.lane;
    if (!shape_.is_vector(rest)) {
      Value* pointer = base_pointer(i.buffer, rest);
      Value* offset = scalar(*c * (shape_.lane + int64_t{u} * lanes_));
      Value* stride = scalar(*c);
      bool narrow = fits_32_bits(*c * lanes_);
      llvm::Type* integer = narrow ? b_.getInt32Ty() : b_.getInt64Ty();
      at(shape_.level_of(*c));
      llvm::SmallVector<llvm::Constant*, 64> iota;
      for (int l = 0; l < lanes_; ++l) iota.push_back(llvm::ConstantInt::get(integer, static_cast<uint64_t>(l)));
      Value* splat = b_.CreateVectorSplat(static_cast<unsigned>(lanes_), b_.CreateTrunc(stride, integer));
      Value* offsets = b_.CreateMul(splat, llvm::ConstantVector::get(iota));
      at(level);
      return b_.CreateGEP(element, b_.CreateGEP(element, pointer, offset), offsets);
    }
  }
  Expr own = i.index, rest = 0;
  if (i.index.node()->kind == ExprKind::Sum) {
    own = 0;
    rest = i.index.node()->constant;
    for (const Term& t : i.index.node()->terms) {
      Expr part = Expr(t.coefficient) * t.factor;
      (shape_.is_vector(t.factor) ? own : rest) = (shape_.is_vector(t.factor) ? own : rest) + part;
    }
  }
  Value* pointer = base_pointer(i.buffer, rest);
  Value* offsets = vector(own, u, fits_32_bits(own) ? b_.getInt32Ty() : b_.getInt64Ty());
  at(level);
  return b_.CreateGEP(element, pointer, offsets);
}

// Prefetches the lines that a later row reads, if this row has `count` vectors.
void Emitter::prefetch_ahead(int count) {
  constexpr int64_t kLine = 64;
  const Expr row = k_.ahead.row;
  for (Ref r : k_.ahead.loads) {
    const Instr& i = k_.instrs[r];
    Value* pointer = base_pointer(i.buffer, substitute(i.index - shape_.lane, [&](Expr symbol) {
                                    return symbol == row ? row + k_.ahead.rows : symbol;
                                  }));
    Value* lane = scalar(shape_.lane);
    at(shape_.innermost);
    pointer = b_.CreateGEP(p_.memory_type(i.dtype, 1), pointer, lane);
    for (int64_t byte = 0; byte < int64_t{count} * lanes_ * element_size(i.dtype); byte += kLine)
      p_.prefetch(b_.CreateConstGEP1_64(b_.getInt8Ty(), pointer, static_cast<uint64_t>(byte)));
  }
}

// Loads every stride-th element from `pointer` on and touches nothing past the last one: the last vector is moved back
// so that it ends there.
Value* Emitter::strided_load(Value* pointer, DType t, int64_t stride) {
  llvm::Type* element = p_.memory_type(t, 1);
  llvm::Type* type = p_.memory_type(t, lanes_);
  int64_t span = stride * (lanes_ - 1) + 1;
  Value* result = nullptr;
  int filled = 0;
  for (int64_t piece = 0; filled < lanes_; ++piece) {
    int64_t first = std::min<int64_t>(piece * lanes_, span - lanes_);
    Value* v =
        b_.CreateAlignedLoad(type, b_.CreateConstGEP1_64(element, pointer, static_cast<uint64_t>(first)), alignment(t));
    llvm::SmallVector<int, 64> order(static_cast<size_t>(lanes_), -1);
    for (int l = 0; l < filled; ++l) order[static_cast<size_t>(l)] = l;
    int base = result ? lanes_ : 0;
    while (filled < lanes_ && filled * stride < first + lanes_) {
      order[static_cast<size_t>(filled)] = base + static_cast<int>(filled * stride - first);
      ++filled;
    }
    result = result ? b_.CreateShuffleVector(result, v, order) : b_.CreateShuffleVector(v, order);
  }
  return result;
}

// The value that a store writes. The store does a conversion to a half type that only feeds it, so that there is one
// rounding, not two. A half value that is stored unchanged keeps its bits.
Emitter::Stored Emitter::source(const Instr& i) const {
  const Instr& from = k_.instrs[i.in[0]];
  bool half = i.dtype == DType::F16 || i.dtype == DType::BF16;
  if (half && from.kind == loops::InstrKind::Cast && from.dtype == i.dtype && value_type(k_, from.in[0]) == DType::F32)
    return {from.in[0], false};
  return {i.in[0], half && value_type(k_, i.in[0]) == i.dtype};
}

Value* Emitter::stored(const Instr& i, int u, bool vector) {
  const Stored from = source(i);
  Value* v = vector ? lanes(from.value, u) : get(from.value, 0);
  at(shape_.innermost);
  if (i.dtype == DType::BF16 && from.exact) return p_.bits_of_bf16(v);
  return p_.to_memory(i.dtype, v);
}

// The address of piece u of contiguous elements.
Value* Emitter::run_pointer(const Instr& i, int level, int u) {
  Value* pointer = base_pointer(i.buffer, i.index - shape_.lane);
  Value* lane = scalar(shape_.lane);
  at(level);
  llvm::Type* element = p_.memory_type(i.dtype, 1);
  pointer = b_.CreateGEP(element, pointer, lane);
  return u ? b_.CreateConstGEP1_64(element, pointer, u * lanes_) : pointer;
}

// The pointer if the condition holds, otherwise a pointer to zeros. A masked load without active lanes may cost
// thousands of instructions if its address has no memory.
Value* Emitter::readable(Value* pointer, Value* condition) {
  if (llvm::isa<llvm::Constant>(condition) && llvm::cast<llvm::Constant>(condition)->isAllOnesValue()) return pointer;
  if (!zero_) {
    llvm::Type* type = b_.getInt64Ty();
    if (lanes_ > 1) type = llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes_));
    llvm::AllocaInst* slot = p_.stack(type, "zero");
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(slot->getNextNode());
    b_.CreateStore(llvm::Constant::getNullValue(type), slot);
    zero_ = slot;
  }
  Value* nothing = zero_;
  if (condition->getType()->isVectorTy()) nothing = b_.CreateVectorSplat(static_cast<unsigned>(lanes_), nothing);
  return b_.CreateSelect(condition, pointer, nothing);
}

// run_pointer() of a load whose mask is the same for all lanes.
Value* Emitter::readable_run(const Instr& i, int level, int u) {
  Value* on = i.in[0] == kNoRef ? nullptr : get(i.in[0], 0);
  Value* pointer = run_pointer(i, level, u);
  return on ? readable(pointer, on) : pointer;
}

// Whether r selects between contiguous runs of memory by conditions that are the same for all lanes. `leaf` is the
// common kind of their elements: all of them are loads, or conversions of loads.
bool Emitter::selects_runs(Ref r, std::optional<Instr>& leaf) const {
  const Instr& i = k_.instrs[r];
  if (i.kind == loops::InstrKind::Compute && i.prim == Prim::Select) {
    return !shape_.vector[i.in[0]] && selects_runs(i.in[1], leaf) && selects_runs(i.in[2], leaf);
  }
  const bool converts = i.kind == loops::InstrKind::Cast;
  const Ref source = converts ? i.in[0] : r;
  const Instr& load = k_.instrs[source];
  if (load.kind != loops::InstrKind::Load || !shape_.vector[source] || shape_.ordered[source]) return false;
  if (!shape_.is_run(load.index) || (load.in[0] != kNoRef && shape_.vector[load.in[0]])) return false;
  if (std::find(k_.tile.loads.begin(), k_.tile.loads.end(), source) != k_.tile.loads.end()) return false;
  const std::optional<Instr> known = std::exchange(leaf, load);
  leaf->kind = i.kind;
  return !known || (known->kind == i.kind && known->dtype == load.dtype);
}

Value* Emitter::selected_run(Ref r, int level, int u) {
  const Instr& i = k_.instrs[r];
  if (i.kind == loops::InstrKind::Load) return readable_run(i, level, u);
  if (i.kind == loops::InstrKind::Cast) return readable_run(k_.instrs[i.in[0]], level, u);
  Value* condition = get(i.in[0], 0);
  Value* a = selected_run(i.in[1], level, u);
  Value* b = selected_run(i.in[2], level, u);
  at(level);
  return b_.CreateSelect(condition, a, b);
}

// Loads a Select between runs of memory from the chosen run only; nullptr if r is something else.
Value* Emitter::load_selected(Ref r, int u) {
  std::optional<Instr> leaf;
  if (lanes_ == 1 || pairs_ || !shape_.vector[r] || !selects_runs(r, leaf)) return nullptr;
  const DType t = leaf->dtype;
  const int level = shape_.level[r];
  Value* pointer = selected_run(r, level, u);
  at(level);
  Value* v = p_.from_memory(t, load_vector(p_.memory_type(t, lanes_), pointer, element_size(t), mask_));
  return leaf->kind == loops::InstrKind::Cast ? p_.cast(t, k_.instrs[r].dtype, v) : v;
}

// Loads adjacent elements in reverse order: one load and one shuffle instead of a gather.
Value* Emitter::load_reversed(const Instr& i, Value* mask, int level, int u) {
  Value* pointer = base_pointer(i.buffer, i.index + shape_.lane);
  Value* lane = scalar(shape_.lane);
  at(level);
  llvm::Type* element = p_.memory_type(i.dtype, 1);
  pointer = b_.CreateGEP(element, pointer, b_.CreateNeg(lane));
  pointer = b_.CreateConstGEP1_64(element, pointer, static_cast<uint64_t>(-(int64_t{u} + 1) * lanes_ + 1));
  if (mask) {
    if (i.in[0] != kNoRef) pointer = readable(pointer, b_.CreateOrReduce(mask));
    mask = b_.CreateVectorReverse(mask);
  }
  Value* v = load_vector(p_.memory_type(i.dtype, lanes_), pointer, element_size(i.dtype), mask);
  return p_.from_memory(i.dtype, b_.CreateVectorReverse(v));
}

Value* Emitter::load(Ref r, int u) {
  if (tiles_.contains(r)) return load_from_tile(r, u);
  const Instr& i = k_.instrs[r];
  DType t = i.dtype;
  int level = shape_.level[r];
  if (pairs_ && shape_.vector[r]) return load_pair(t, run_pointer(i, level, u & ~1), r, u);
  bool vector_index = lanes_ > 1 && shape_.is_vector(i.index);
  if (!vector_index) {
    Value* pointer = base_pointer(i.buffer, i.index);
    Value* mask = i.in[0] == kNoRef ? nullptr : shape_.vector[r] ? combined_mask(i.in[0], u, level) : get(i.in[0], 0);
    at(level);
    Value* any = mask && shape_.vector[r] ? b_.CreateOrReduce(mask) : mask;
    if (any) pointer = readable(pointer, any);
    Value* v = p_.from_memory(t, b_.CreateAlignedLoad(p_.memory_type(t, 1), pointer, alignment(t)));
    if (!shape_.vector[r]) return v;
    Value* splat = b_.CreateVectorSplat(static_cast<unsigned>(lanes_), v);
    return b_.CreateSelect(mask, splat, llvm::Constant::getNullValue(splat->getType()));
  }
  llvm::Type* type = p_.memory_type(t, lanes_);
  if (shape_.is_run(i.index)) {
    const bool masked = i.in[0] != kNoRef, own_lanes = masked && shape_.vector[i.in[0]];
    const auto* same = masked && !own_lanes ? llvm::dyn_cast<llvm::Constant>(get(i.in[0], 0)) : nullptr;
    if (same && same->isNullValue()) return llvm::Constant::getNullValue(p_.register_type(t, lanes_));
    Value* pointer = own_lanes ? run_pointer(i, level, u) : readable_run(i, level, u);
    Value* mask = own_lanes ? combined_mask(i.in[0], u, level) : mask_;
    if (own_lanes) pointer = readable(pointer, b_.CreateOrReduce(mask));
    return p_.from_memory(t, load_vector(type, pointer, element_size(t), mask));
  }
  Value* mask = combined_mask(i.in[0], u, level);
  if (shape_.is_reversed_run(i.index)) return load_reversed(i, mask, level, u);
  auto c = coefficient_of(i.index, shape_.lane);
  Expr rest = c ? i.index - *c * shape_.lane : Expr(0);
  if (!mask && c && c->is_constant() && c->constant() > 1 && c->constant() <= 4 && !shape_.is_vector(rest)) {
    Value* pointer = base_pointer(i.buffer, rest);
    Value* lane = scalar(*c * shape_.lane);
    at(level);
    llvm::Type* element = p_.memory_type(t, 1);
    pointer = b_.CreateGEP(element, pointer, lane);
    if (u)
      pointer = b_.CreateConstGEP1_64(element, pointer, static_cast<uint64_t>(int64_t{u} * lanes_ * c->constant()));
    return p_.from_memory(t, strided_load(pointer, t, c->constant()));
  }
  Value* pointers = lane_pointers(i, u);
  at(level);
  if (element_size(t) >= 4) {
    llvm::Constant* nothing = llvm::Constant::getNullValue(type);
    return p_.from_memory(t, b_.CreateMaskedGather(type, pointers, alignment(t), mask, nothing));
  }
  // Without a gather instruction there is one load per lane. Inactive lanes read the zero slot.
  if (mask) {
    pointers = readable(pointers, mask);
  }
  Value* v = llvm::PoisonValue::get(type);
  for (int l = 0; l < lanes_; ++l) {
    Value* pointer = b_.CreateExtractElement(pointers, static_cast<uint64_t>(l));
    v = b_.CreateInsertElement(v, b_.CreateAlignedLoad(p_.memory_type(t, 1), pointer, alignment(t)),
                               static_cast<uint64_t>(l));
  }
  return p_.from_memory(t, v);
}

// The stores of the same stage that together write adjacent elements, of which each one writes every `stride`-th, in
// the order of memory; empty: this store is not one of them.
std::vector<Ref> Emitter::interleaved(Ref r) const {
  constexpr int64_t kMostStores = 4;
  const auto c = coefficient_of(k_.instrs[r].index, shape_.lane);
  if (!c || !c->is_constant() || c->constant() < 2 || c->constant() > kMostStores ||
      shape_.is_vector(k_.instrs[r].index - *c * shape_.lane))
    return {};
  const int64_t stride = c->constant();
  const std::vector<Ref>& body = body_of(r);
  // The stores less than a stride away, by their distance.
  const auto near = [&](Ref from) {
    std::map<int64_t, Ref> found;
    for (const Ref o : body) {
      const Instr &i = k_.instrs[from], &other = k_.instrs[o];
      if (other.kind != loops::InstrKind::Store || other.buffer != i.buffer || other.in[1] != kNoRef) continue;
      const Expr distance = other.index - i.index;
      if (distance.is_constant() && std::abs(distance.constant()) < stride) found.emplace(distance.constant(), o);
    }
    std::vector<Ref> out;
    for (const auto& [distance, o] : found) out.push_back(o);
    return out;
  };
  const std::vector<Ref> all = near(r);
  const auto is_complete = [&](Ref o) { return near(o) == all; };
  const bool complete = all.size() == static_cast<size_t>(stride) &&
                        std::find(all.begin(), all.end(), r) != all.end() &&
                        (k_.instrs[all.back()].index - k_.instrs[all[0]].index).is_constant(stride - 1);
  return complete && std::all_of(all.begin(), all.end(), is_complete) ? all : std::vector<Ref>();
}

// The stage of an instruction.
const std::vector<Ref>& Emitter::body_of(Ref r) const {
  return std::find_if(k_.stages.begin(), k_.stages.end(),
                      [&](const loops::Stage& s) { return std::find(s.body.begin(), s.body.end(), r) != s.body.end(); })
      ->body;
}

// Writes what these stores write at once, as vectors of adjacent elements.
void Emitter::store_interleaved(const std::vector<Ref>& stores, int u) {
  const Instr& first = k_.instrs[stores[0]];
  const int level = shape_.level[stores[0]], n = static_cast<int>(stores.size());
  std::vector<Value*> values;
  for (const Ref r : stores) values.push_back(stored(k_.instrs[r], u, true));
  Value* pointer = base_pointer(first.buffer, first.index - Expr(n) * shape_.lane);
  Value* lane = scalar(Expr(n) * shape_.lane);
  at(level);
  llvm::Type* element = p_.memory_type(first.dtype, 1);
  pointer = b_.CreateGEP(element, pointer, lane);
  for (int part = 0; part < n; ++part) {
    const auto store_of = [&](int l) { return (part * lanes_ + l) % n; };
    const auto lane_of = [&](int l) { return (part * lanes_ + l) / n; };
    Value* run = llvm::PoisonValue::get(values[0]->getType());
    for (int k = 0; k < n; ++k) {
      llvm::SmallVector<int, 64> order;
      for (int l = 0; l < lanes_; ++l) order.push_back(store_of(l) == k ? lanes_ + lane_of(l) : l);
      run = b_.CreateShuffleVector(run, values[static_cast<size_t>(k)], order);
    }
    Value* mask = nullptr;
    if (mask_) {
      llvm::SmallVector<int, 64> order;
      for (int l = 0; l < lanes_; ++l) order.push_back(lane_of(l));
      mask = b_.CreateShuffleVector(mask_, order);
    }
    store_vector(run, b_.CreateConstGEP1_64(element, pointer, static_cast<uint64_t>(n * u + part) * lanes_),
                 element_size(first.dtype), mask);
  }
}

// Writes adjacent elements, past the caches if requested.
void Emitter::store_run(Value* v, Value* pointer, const Instr& i, Value* mask) {
  const int64_t elements = Primitives::lanes_of(v);
  if (mask || !streams(i, elements)) return store_vector(v, pointer, element_size(i.dtype), mask);
  llvm::StoreInst* s =
      b_.CreateAlignedStore(v, pointer, Align(static_cast<uint64_t>(elements * element_size(i.dtype))));
  s->setMetadata(llvm::LLVMContext::MD_nontemporal,
                 llvm::MDNode::get(m_.getContext(), llvm::ConstantAsMetadata::get(b_.getInt32(1))));
  streamed_ = true;
}

void Emitter::write_one(const Instr& i, int level, const std::function<void(Value*)>& write) {
  Value* pointer = base_pointer(i.buffer, i.index);
  Value* mask = i.in[1] == kNoRef ? nullptr : get(i.in[1], 0);
  at(level);
  if (mask) b_.SetInsertPoint(llvm::SplitBlockAndInsertIfThen(mask, scopes_[scope_index(level)].end, false));
  write(pointer);
  at(level);
}

void Emitter::store(Ref r, int u) {
  const Instr& i = k_.instrs[r];
  int level = shape_.level[r];
  if (is_one_element(level)) {
    Value* v = stored(i, 0, false);
    return write_one(i, level, [&](Value* pointer) { b_.CreateAlignedStore(v, pointer, alignment(i.dtype)); });
  }
  if (pairs_) {
    if (u % 2 == 0) return;  // its partner stores both
    Value* run = stored_pair(i, u);
    store_run(run, run_pointer(i, level, u - 1), i, nullptr);
    return;
  }
  if (const std::vector<Ref> stores = interleaved(r); !stores.empty()) {
    if (r == *std::ranges::max_element(stores)) store_interleaved(stores, u);  // the last one stores all
    return;
  }
  Value* v = stored(i, u, true);
  Value* mask = combined_mask(i.in[1], u, level);
  if (shape_.is_run(i.index)) {
    store_run(v, run_pointer(i, level, u), i, mask);
    return;
  }
  Value* pointers = lane_pointers(i, u);
  at(level);
  if (!mask && element_size(i.dtype) < 4) {
    for (int l = 0; l < lanes_; ++l) {
      Value* pointer = b_.CreateExtractElement(pointers, static_cast<uint64_t>(l));
      b_.CreateAlignedStore(b_.CreateExtractElement(v, static_cast<uint64_t>(l)), pointer, alignment(i.dtype));
    }
    return;
  }
  b_.CreateMaskedScatter(v, pointers, alignment(i.dtype), mask);
}

// Several lanes may add to one element, so lanes add one after another, and atomically unless the kernel is serial.
void Emitter::store_add(Ref r, int u) {
  const Instr& i = k_.instrs[r];
  int level = shape_.level[r];
  DType t = i.dtype;
  DType sum = opmath(t);
  bool half = t == DType::F16 || t == DType::BF16;
  if (half && !k_.serial) VESTA_UNSUPPORTED("a parallel scatter-add into {} elements", name(t));
  llvm::Type* element = p_.memory_type(t, 1);
  auto add_one = [&](Value* pointer, Value* v) {
    if (k_.serial || t == DType::Bool) {
      Value* old = p_.from_memory(t, b_.CreateAlignedLoad(element, pointer, alignment(t)));
      Value* now = p_.compute(Prim::Add, sum, old, v);
      b_.CreateAlignedStore(p_.to_memory(t, now), pointer, alignment(t));
      return;
    }
    b_.CreateAtomicRMW(is_float(t) ? llvm::AtomicRMWInst::FAdd : llvm::AtomicRMWInst::Add, pointer, v, alignment(t),
                       llvm::AtomicOrdering::Monotonic);
  };
  if (is_one_element(level)) {
    Value* v = get(i.in[0], 0);
    return write_one(i, level, [&](Value* pointer) { add_one(pointer, v); });
  }
  Value* v = lanes(i.in[0], u);
  Value* mask = combined_mask(i.in[1], u, level);
  Value* pointers = lane_pointers(i, u);
  at(level);
  if (t == DType::Bool) v = b_.CreateZExt(v, p_.memory_type(t, lanes_));
  llvm::AllocaInst* values = p_.stack(v->getType(), "values");
  llvm::AllocaInst* addresses = p_.stack(pointers->getType(), "addresses");
  b_.CreateStore(v, values);
  b_.CreateStore(pointers, addresses);
  llvm::AllocaInst* live = nullptr;
  if (mask) {
    llvm::Type* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), static_cast<unsigned>(lanes_));
    live = p_.stack(bytes, "live");
    b_.CreateStore(b_.CreateZExt(mask, bytes), live);
  }
  loop(b_.getInt64(0), b_.getInt64(static_cast<uint64_t>(lanes_)), 1, level + 1, level + 1, true, 0, [&](Value* l) {
    llvm::Type* value_type = v->getType()->getScalarType();
    Value* pointer = b_.CreateLoad(b_.getPtrTy(), b_.CreateGEP(b_.getPtrTy(), addresses, l));
    Value* one = b_.CreateLoad(value_type, b_.CreateGEP(value_type, values, l));
    if (t == DType::Bool) one = b_.CreateTrunc(one, b_.getInt1Ty());
    if (live) {
      Value* on = b_.CreateICmpNE(b_.CreateLoad(b_.getInt8Ty(), b_.CreateGEP(b_.getInt8Ty(), live, l)), b_.getInt8(0));
      b_.SetInsertPoint(llvm::SplitBlockAndInsertIfThen(on, scopes_.back().end, false));
    }
    add_one(pointer, one);
  });
  at(level);
}

Value* Emitter::row_pointer(int slot, int u) {
  Expr position = 0;
  for (const Loop& l : shape_.loops) position = position * l.extent + l.var;
  bool columns = shape_.kind == LoopKind::Columns;
  if (columns) position = position * k_.block;
  Expr rest = shape_.kind == LoopKind::Rows ? position - shape_.lane : position;
  Value* offset = scalar(row_offset(k_, slot));
  at(0);
  Value* pointer = b_.CreateGEP(b_.getInt8Ty(), f_.getArg(2), offset);
  llvm::Type* element = p_.memory_type(k_.row_slots[static_cast<size_t>(slot)], 1);
  Value* base = scalar(rest);
  at(shape_.level_of(rest));
  pointer = b_.CreateGEP(element, pointer, base);
  if (shape_.kind == LoopKind::Scalar) return pointer;
  Value* lane = scalar(shape_.lane);
  at(shape_.innermost);
  pointer = b_.CreateGEP(element, pointer, lane);
  return u ? b_.CreateConstGEP1_64(element, pointer, u * lanes_) : pointer;
}

}  // namespace vesta::codegen
