// A matrix product whose sums are in registers (loops/register_product.h). For each slice of the inner space: for each
// tile of columns: for each tile of rows, the sums of the tile; after the last slice, the stages that read the sums.
//
// The last rows are a tile of their own, or one or two halves of a tile where their number is not known. Rows and
// columns past the end are computed and not stored: rows past the end are the last row again, and columns past the end
// are those of a masked load, or the last column again.
//
// The inner space is counted in steps. A step is a word of 4 bytes of a row and of each column: a float, or two BF16
// (RegisterTile::pairs), which are held as a float where they are only moved.
#include <algorithm>

#include "base/check.h"
#include "codegen/llvm/emitter.h"
#include "codegen/llvm/micro_kernel.h"
#include "codegen/llvm/transpose.h"

namespace vesta::codegen {

using llvm::Value;
using loops::Instr;
using loops::RegisterTile;

namespace {

constexpr int64_t kTilesTogether = 4, kPrefetched = 12;  // tiles that are packed at once, steps ahead
constexpr int64_t kLineFloats = 16;
const llvm::Align kFloat(4);

}  // namespace

// This many elements of the inner space in steps.
Expr Emitter::steps(Expr elements) const { return ceildiv(elements, k_.registers.elements_of_step()); }

llvm::Type* Emitter::operand_type() { return k_.registers.pairs ? b_.getInt16Ty() : b_.getFloatTy(); }
llvm::Align Emitter::operand_align() const { return k_.registers.pairs ? llvm::Align(2) : kFloat; }

void Emitter::product_item() {
  const RegisterTile& t = k_.registers;
  const Expr rows = k_.ranges[static_cast<size_t>(k_.vector) - 1].extent;
  const Expr columns = k_.ranges[static_cast<size_t>(k_.vector)].extent;
  const auto loop_stage =
      std::find_if(k_.stages.begin(), k_.stages.end(), [](const loops::Stage& s) { return s.loop; });
  const auto sum = loops::register_sum(k_.instrs, loop_stage->body, shape_.row, shape_.lane);
  VESTA_CHECK(sum, "tiles in registers of a kernel that is no product");
  product_.sum = *sum;
  const loops::RegisterScratch scratch = loops::register_scratch(k_, *sum);
  product_.one_slice = loops::has_one_slice(k_);
  const auto smaller = [&](Expr a, Expr b) {
    Value *x = scalar(a), *y = scalar(b);
    at(2);
    return b_.CreateSelect(b_.CreateICmpSLT(x, y), x, y);
  };
  product_.first_row = scalar(shape_.row_block * t.row_block);
  product_.end_row = smaller(rows, shape_.row_block * t.row_block + t.row_block);
  product_.end_column = smaller(columns - shape_.block_index * k_.block, k_.block);
  Value* const all = scalar(steps(k_.ranges.back().extent));
  product_.steps = all;
  b_.SetInsertPoint(scopes_.back().end);
  const auto part = [&](Expr offset) {
    Value* const bytes = scalar(offset);
    b_.SetInsertPoint(scopes_.back().end);
    return b_.CreateInBoundsGEP(b_.getInt8Ty(), f_.getArg(2), bytes);
  };
  product_.rows = part(scratch.rows);
  product_.columns = part(scratch.columns);
  product_.sums = part(scratch.sums);
  product_.pointers = loops::rows_have_pointers(k_, *sum) ? part(scratch.pointers) : nullptr;
  const std::vector<const Instr*> loads = loads_of_finish();
  const int64_t vectors = t.columns / lanes_;
  const int64_t fewer = provably_divisible(columns, t.columns) ? vectors : loops::vectors_of_few_columns(vectors);
  const auto in_slice = [&](Value* begin, Value* end) {
    if (t.depth > 0) return matrix_slice(begin, end);
    // Runs the body where the slice completes the tile's sums.
    const auto at_end = [&](const std::function<void()>& body) {
      if (product_.one_slice) return body();
      run_if(b_.CreateAnd(product_.in_last, b_.CreateICmpEQ(end, all)), body);
    };
    const auto tile = [&](Value* row, Value* column) {
      b_.SetInsertPoint(scopes_.back().end);
      Value *const after = b_.CreateAdd(row, number(t.rows)), *last = after, *whole = nullptr;
      if (!provably_divisible(rows, t.rows)) {
        whole = b_.CreateICmpSLE(after, product_.end_row);
        last = b_.CreateSelect(whole, after, product_.end_row);
      }
      if (!loads.empty()) at_end([&] { fetch_tile(loads, row, last, column); });
      b_.SetInsertPoint(scopes_.back().end);
      // The last columns may be so few that some vectors have none.
      const auto whole_rows = [&] {
        const auto multiply_vectors = [&](int64_t n) {
          return [&, n] { multiply(t.rows, n, row, column, begin, end); };
        };
        if (fewer == vectors) return multiply_vectors(vectors)();
        Value* const few = b_.CreateICmpSLE(b_.CreateSub(product_.end_column, column), number(fewer * lanes_));
        run_if(few, multiply_vectors(fewer));
        run_if(b_.CreateNot(few), multiply_vectors(vectors));
      };
      if (!whole) {
        whole_rows();
      } else {
        Value* const few = b_.CreateSelect(whole, last, row);
        if (!provably_at_least(t.rows - 1, rows)) run_if(whole, whole_rows);
        const int64_t few_rows = loops::rows_of_last_tile(t, rows);
        loop(few, last, few_rows, 3, 3, false, 0,
             [&](Value* at) { multiply(few_rows, vectors, at, column, begin, end); });
      }
      b_.SetInsertPoint(scopes_.back().end);
      at_end([&] { finish_tile(row, last, column); });
    };
    if (t.packs_rows) pack_rows(begin, end);
    loop(number(0), product_.end_column, t.columns, scopes_.back().level, 3, true, 0, [&](Value* column) {
      if (t.packs_columns) pack_columns(column, begin, end);
      loop(product_.first_row, product_.end_row, t.rows, 3, 3, true, 0, [&](Value* row) { tile(row, column); });
    });
  };
  if (product_.pointers) point_to_rows();
  product_.in_first = product_.in_last = b_.getTrue();
  if (product_.one_slice) return in_slice(number(0), all);
  product_slices(outer_ranges(), [&] {
    Value* const slice = scalar(steps(t.slice));
    loop(number(0), all, slice, scopes_.back().level, 3, true, 0, [&](Value* begin) {
      b_.SetInsertPoint(scopes_.back().end);
      Value* const next = b_.CreateAdd(begin, slice);
      in_slice(begin, b_.CreateSelect(b_.CreateICmpSLT(next, all), next, all));
    });
  });
}

// Code that runs where the condition, an i1, holds. Values of the code around it are in scope.
void Emitter::run_if(Value* condition, const std::function<void()>& body) {
  const int before = std::min(3, scopes_.back().level);  // what belongs to the work item is computed before
  loop(number(0), b_.CreateZExt(condition, b_.getInt64Ty()), 1, before, 3, false, 0, [&](Value*) { body(); });
  b_.SetInsertPoint(scopes_.back().end);
}

// Loops over these Inner ranges.
void Emitter::product_slices(std::span<const loops::Range> ranges, const std::function<void()>& body) {
  if (ranges.empty()) return body();
  Value* const extent = scalar(ranges[0].extent);
  loop(number(0), extent, 1, scopes_.back().level, 3, true, ranges[0].var, [&](Value* at) {
    b_.SetInsertPoint(scopes_.back().end);
    const auto outer = std::pair(product_.in_first, product_.in_last);
    product_.in_first = b_.CreateAnd(outer.first, b_.CreateICmpEQ(at, number(0)));
    product_.in_last = b_.CreateAnd(outer.second, b_.CreateICmpEQ(at, b_.CreateSub(extent, number(1))));
    product_slices(ranges.subspan(1), body);
    std::tie(product_.in_first, product_.in_last) = outer;
  });
}

// Whether every slice has a whole vector of steps.
bool Emitter::slices_have_vectors() const {
  const Expr inner = steps(k_.ranges.back().extent);
  if (!inner.is_constant()) return false;
  const int64_t slice = steps(k_.registers.slice).constant(), last = inner.constant() % slice;
  return slice >= lanes_ && inner.constant() >= lanes_ && (last == 0 || last >= lanes_);
}

// Prefetches the neighbours that a load reads some steps later.
void Emitter::prefetch_inner(const Instr& i, int64_t elements) {
  const Expr inner = k_.ranges.back().var;
  const int64_t floats = elements / k_.registers.elements_of_step();
  Value* const later = base_pointer(i.buffer, substitute(i.index, [&](Expr s) {
                                      return s == inner ? inner + kPrefetched * k_.registers.elements_of_step() : s;
                                    }));
  b_.SetInsertPoint(scopes_.back().end);
  for (int64_t at = 0; at < floats; at += kLineFloats)
    p_.prefetch(b_.CreateConstGEP1_64(b_.getFloatTy(), later, static_cast<uint64_t>(at)));
}

// Copies the rows of the work item: each row's elements beside each other, or those of a tile's rows. Elements are
// prefetched, because the hardware does not prefetch across pages.
void Emitter::pack_rows(Value* begin, Value* end) {
  const RegisterTile& t = k_.registers;
  const Instr& i = k_.instrs[product_.sum.row];
  const Expr inner = k_.ranges.back().var;
  llvm::Type* const element = b_.getFloatTy();
  Value* done = product_.first_row;
  if (t.depth > 0) {
    if (loops::reads_along(k_, product_.sum.row, inner)) return copy_rows(begin, end);
    const bool transposes = loops::reads_along(k_, product_.sum.row, shape_.row) && !loops::ends_in_half_step(k_);
    if (transposes) done = transpose_rows(begin, end);
  }
  if (packs_rows_together()) {
    // Several tiles at a time, which share cache lines; then whole tiles; then rows.
    for (const int64_t tiles : {kTilesTogether, int64_t{1}}) {
      Value* const left = b_.CreateSub(product_.end_row, done);
      Value* const end_of_these = b_.CreateAdd(done, b_.CreateSub(left, b_.CreateURem(left, number(tiles * t.rows))));
      loop(done, end_of_these, tiles * t.rows, scopes_.back().level, 4, false, shape_.row, [&](Value* row) {
        b_.SetInsertPoint(scopes_.back().end);
        Value* const to = b_.CreateGEP(element, product_.rows, packed_row(row));
        loop(begin, end, 1, 4, shape_.innermost, true, 0, [&](Value* k) {
          std::vector<Value*> from;  // of each element of the step
          for (int64_t e = 0; e < t.elements_of_step(); ++e)
            at_element(k, e, [&](Value*) {
              from.push_back(base_pointer(i.buffer, i.index));
              prefetch_inner(i, tiles * t.rows);
            });
          b_.SetInsertPoint(scopes_.back().end);
          Value* const first = b_.CreateGEP(element, to, b_.CreateMul(b_.CreateSub(k, begin), number(t.rows)));
          for (int64_t tile = 0; tile < tiles; ++tile) {
            const int64_t apart = tile * t.rows * steps(t.slice).constant();
            b_.CreateAlignedStore(rows_of_step(from, tile * t.rows),
                                  b_.CreateConstGEP1_64(element, first, static_cast<uint64_t>(apart)), kFloat);
          }
        });
      });
      b_.SetInsertPoint(scopes_.back().end);
      done = end_of_these;
    }
  }
  b_.SetInsertPoint(scopes_.back().end);
  Value *const each = number(t.elements_of_step()), *const first = b_.CreateMul(begin, each);
  Value* last = b_.CreateMul(end, each);
  if (loops::ends_in_half_step(k_)) {
    Value* const all = number(k_.ranges.back().extent.constant());
    last = b_.CreateSelect(b_.CreateICmpSLT(last, all), last, all);
  }
  const auto store_element = [&](Value* v, Value* to, Value* at) {
    b_.CreateAlignedStore(v, b_.CreateGEP(operand_type(), to, at), operand_align());
  };
  const Ref load = packs_rows_together() || t.pairs ? loops::kNoRef : loops::loaded_along(k_, product_.sum.row, inner);
  // Copies whole vectors of a row. Returns the first element after them.
  const auto copy_vectors = [&](Value* to) {
    Value* const rest = b_.CreateSub(last, b_.CreateURem(b_.CreateSub(last, first), number(lanes_)));
    loop(first, rest, lanes_, 4, shape_.innermost, true, inner, [&](Value* k) {
      Value* const from = base_pointer(k_.instrs[load].buffer, k_.instrs[load].index);
      b_.SetInsertPoint(scopes_.back().end);
      b_.CreateAlignedStore(p_.load_converted(conversions(product_.sum.row), lanes_, from),
                            b_.CreateGEP(element, to, b_.CreateSub(k, first)), kFloat);
    });
    b_.SetInsertPoint(scopes_.back().end);
    return rest;
  };
  loop(done, product_.end_row, 1, scopes_.back().level, 4, false, shape_.row, [&](Value* row) {
    packed_windows([&](Value* start) {
      b_.SetInsertPoint(scopes_.back().end);
      Value* const to = b_.CreateGEP(element, product_.rows, b_.CreateAdd(packed_row(row), start));
      loop(load == loops::kNoRef ? first : copy_vectors(to), last, 1, 4, shape_.innermost, true, inner, [&](Value* k) {
        Value* v = get(product_.sum.row, 0);
        b_.SetInsertPoint(scopes_.back().end);
        if (t.pairs) v = p_.bits_of_bf16(v);
        Value* at = b_.CreateSub(k, first);
        if (t.depth > 0) {
          at = packed_element(at);
        } else if (packs_rows_together()) {
          Value* const step = b_.CreateMul(b_.CreateUDiv(at, each), number(t.rows * t.elements_of_step()));
          at = b_.CreateAdd(step, b_.CreateURem(at, each));
        }
        store_element(v, to, at);
      });
      if (t.depth > 0 && loops::ends_in_half_step(k_)) {  // a matrix has whole pairs
        b_.SetInsertPoint(scopes_.back().end);
        run_if(b_.CreateICmpEQ(end, product_.steps), [&] {
          b_.SetInsertPoint(scopes_.back().end);
          store_element(llvm::Constant::getNullValue(operand_type()), to, packed_element(b_.CreateSub(last, first)));
        });
      }
    });
  });
}

// The dtype of a factor's load and those of the casts after it (loops::loaded_along).
std::vector<DType> Emitter::conversions(Ref factor) const {
  std::vector<DType> types;
  Ref r = factor;
  for (; k_.instrs[r].kind == loops::InstrKind::Cast; r = k_.instrs[r].in[0]) types.push_back(k_.instrs[r].dtype);
  types.push_back(k_.instrs[r].dtype);
  std::reverse(types.begin(), types.end());
  return types;
}

// The words of a step of a tile's rows, which lie beside each other. `from`: where each element of the step begins.
Value* Emitter::rows_of_step(std::span<Value* const> from, int64_t first_row) {
  const int64_t rows = k_.registers.rows;
  llvm::Type* const type = llvm::FixedVectorType::get(operand_type(), static_cast<unsigned>(rows));
  std::vector<Value*> loaded;
  for (Value* at : from)
    loaded.push_back(b_.CreateAlignedLoad(
        type, b_.CreateConstGEP1_64(operand_type(), at, static_cast<uint64_t>(first_row)), operand_align()));
  if (loaded.size() == 1) return loaded[0];
  llvm::SmallVector<int, 32> order;
  for (int64_t r = 0; r < rows; ++r) order.append({static_cast<int>(r), static_cast<int>(rows + r)});
  return b_.CreateShuffleVector(loaded[0], loaded[1], order);
}

// Whether the packed words of a tile's rows lie beside each other: where they do in memory, for sums in vectors.
bool Emitter::packs_rows_together() const {
  return k_.registers.depth == 0 && loops::reads_along(k_, product_.sum.row, shape_.row);
}

// Runs the body with the last inner variable at an element of the step. `exists`: nullptr, or whether there is such an
// element; where there is none, the variable is at the last one.
void Emitter::at_element(Value* step, int64_t element, const std::function<void(Value* exists)>& body) {
  b_.SetInsertPoint(scopes_.back().end);
  Value* at = b_.CreateAdd(b_.CreateMul(step, number(k_.registers.elements_of_step())), number(element));
  Value* exists = nullptr;
  if (element > 0 && loops::ends_in_half_step(k_)) {
    Value* const last = number(k_.ranges.back().extent.constant() - 1);
    exists = b_.CreateICmpSLE(at, last);
    at = b_.CreateSelect(exists, at, last);
  }
  scopes_.emplace_back(shape_.innermost, scopes_.back().end);
  scopes_.back().scalars[k_.ranges.back().var] = at;
  body(exists);
  scopes_.pop_back();
}

// The offset of a row's first packed step.
Value* Emitter::packed_row(Value* row) {
  const RegisterTile& t = k_.registers;
  Value* const own = b_.CreateSub(row, product_.first_row);
  const auto times = [&](Value* v, int64_t n) { return b_.CreateMul(v, number(n)); };
  if (t.depth > 0) return packed_matrix_row(own);
  if (!packs_rows_together()) return times(own, loops::packed_row_pitch(k_));
  Value* const in_tile = rows_into_tile(row);
  return b_.CreateAdd(times(b_.CreateSub(own, in_tile), steps(t.slice).constant()), in_tile);
}

// Copies a tile of columns: its vectors beside each other.
void Emitter::pack_columns(Value* column, Value* begin, Value* end) {
  const RegisterTile& t = k_.registers;
  const Expr inner = k_.ranges.back().var, extent = k_.ranges[static_cast<size_t>(k_.vector)].extent;
  // Squares are transposed in registers where neighbours lie along the inner range.
  const Ref load = loops::loaded_along(k_, product_.sum.column, inner);
  const bool transposes = load != loops::kNoRef && coefficient_of(k_.instrs[load].index, shape_.lane) &&
                          slices_have_vectors() && !loops::ends_in_half_step(k_);
  const bool whole = provably_divisible(extent, t.columns);
  // A row of memory is read at once where all its vectors are full.
  const int vectors = transposes || !whole ? 1 : static_cast<int>(t.columns / lanes_);
  b_.SetInsertPoint(scopes_.back().end);
  Value* const after = b_.CreateAdd(column, number(t.columns));
  loop(column, after, int64_t{vectors} * lanes_, 3, 6, true, shape_.lane, [&](Value* lane) {
    b_.SetInsertPoint(scopes_.back().end);
    Value* const to = b_.CreateGEP(b_.getFloatTy(), product_.columns, b_.CreateSub(lane, column));
    if (transposes) return transpose_columns(k_.instrs[load], to, begin, end);
    if (!whole) {
      // A vector of the tile may lie past the end as a whole.
      Value *const left = b_.CreateSub(product_.end_column, lane), *const none = number(0);
      mask_ = tail_mask(none, b_.CreateSelect(b_.CreateICmpSGT(left, none), left, none));
    }
    const bool runs = loops::reads_along(k_, product_.sum.column, shape_.lane);
    loop(begin, end, 1, 6, shape_.innermost, true, 0, [&](Value* k) {
      const std::vector<Value*> words = words_of_columns(k, vectors, runs);
      for (int u = 0; u < vectors; ++u) {
        Value* const at =
            b_.CreateAdd(b_.CreateMul(b_.CreateSub(k, begin), number(t.columns)), number(int64_t{u} * lanes_));
        b_.CreateAlignedStore(words[static_cast<size_t>(u)], b_.CreateGEP(b_.getFloatTy(), to, at), kFloat);
      }
    });
    mask_ = nullptr;
  });
}

// The words of a step of so many vectors of columns.
std::vector<Value*> Emitter::words_of_columns(Value* step, int vectors, bool prefetches) {
  llvm::Type* const i32 = p_.register_type(DType::I32, lanes_);
  std::vector<Value*> words;
  for (int64_t element = 0; element < k_.registers.elements_of_step(); ++element)
    at_element(step, element, [&](Value* exists) {
      if (prefetches) prefetch_inner(k_.instrs[product_.sum.column], int64_t{vectors} * lanes_);
      for (int u = 0; u < vectors; ++u) {
        Value* const v = lanes(product_.sum.column, u);
        b_.SetInsertPoint(scopes_.back().end);
        if (element == 0) {
          words.push_back(v);
          continue;
        }
        // A BF16 is the upper half of the float that it is in registers.
        Value*& word = words[static_cast<size_t>(u)];
        Value *const first = b_.CreateLShr(b_.CreateBitCast(word, i32), uint64_t{16}),
                     *second = b_.CreateBitCast(v, i32);
        if (exists) second = b_.CreateSelect(exists, second, llvm::Constant::getNullValue(i32));
        word = b_.CreateBitCast(b_.CreateOr(first, second), v->getType());
      }
    });
  b_.SetInsertPoint(scopes_.back().end);
  return words;
}

// Packs a vector of columns whose elements are neighbours along the inner range: reads squares and transposes
// them in registers. The last square ends with the slice and may overlap the one before it.
void Emitter::transpose_columns(const Instr& i, Value* to, Value* begin, Value* end) {
  const RegisterTile& t = k_.registers;
  const Expr inner = k_.ranges.back().var, step = *coefficient_of(i.index, shape_.lane);
  const bool whole = provably_divisible(k_.ranges[static_cast<size_t>(k_.vector)].extent, t.columns);
  Value* const lane = scalar(shape_.lane);
  const Expr rest = substitute(i.index, [&](Expr s) { return s == inner || s == shape_.lane ? Expr(0) : s; });
  Value* const from = base_pointer(i.buffer, rest);
  Value* const stride = scalar(step);
  b_.SetInsertPoint(scopes_.back().end);
  const TransposedRows columns{.lanes = lanes_, .types = conversions(product_.sum.column), .pairs = t.pairs};
  const auto bytes = [&](Value* elements) { return b_.CreateMul(elements, number(element_size(i.dtype))); };
  TransposedRowsOperands operands;
  operands.from_bytes = bytes(stride);
  Value* const first = b_.CreateAdd(b_.CreateMul(lane, stride), b_.CreateMul(begin, number(t.elements_of_step())));
  operands.from = b_.CreateGEP(p_.memory_type(i.dtype, 1), from, first);
  operands.last_row = whole ? number(lanes_ - 1) : b_.CreateSub(b_.CreateSub(product_.end_column, number(1)), lane);
  operands.to = to, operands.to_bytes = number(t.columns * kStepBytes);
  operands.count = b_.CreateSub(end, begin);
  call_shared(shared_function(columns), arguments(operands));
}

// Where the element that the load reads for this value of `var`, and the first values of these Inner ranges, lies.
Value* Emitter::pointer_at(const Instr& load, Expr var, Value* value, std::span<const loops::Range> inner) {
  const Expr start = substitute(load.index, [&](Expr s) {
    return std::any_of(inner.begin(), inner.end(), [&](const loops::Range& r) { return r.var == s; }) ? Expr(0) : s;
  });
  // What depends on this value belongs to no other pointer.
  scopes_.emplace_back(shape_.level_of(var), scopes_.back().end);
  scopes_.back().scalars[var] = value;
  Value* const pointer = base_pointer(load.buffer, start);
  scopes_.pop_back();
  return pointer;
}

std::span<const loops::Range> Emitter::inner_ranges() const {
  return std::span(k_.ranges).subspan(static_cast<size_t>(k_.vector) + 1);
}

// The Inner ranges but the last one.
std::span<const loops::Range> Emitter::outer_ranges() const { return inner_ranges().first(inner_ranges().size() - 1); }

// How far a row's elements of the current slices are from its first ones.
Expr Emitter::start_of_rows() const {
  Expr sum = 0;
  for (const loops::Range& r : outer_ranges())
    sum = sum + *coefficient_of(k_.instrs[product_.sum.row].index, r.var) * r.var;
  return sum;
}

// Keeps where the rows of the work item begin. Rows of a tile past the end are the last row.
void Emitter::point_to_rows() {
  const Instr& i = k_.instrs[product_.sum.row];
  b_.SetInsertPoint(scopes_.back().end);
  Value* const last = b_.CreateSub(product_.end_row, number(1));
  Value* const end = b_.CreateAdd(last, number(k_.registers.rows));
  loop(product_.first_row, end, 1, scopes_.back().level, 4, true, 0, [&](Value* row) {
    b_.SetInsertPoint(scopes_.back().end);
    Value* const from =
        pointer_at(i, shape_.row, b_.CreateSelect(b_.CreateICmpSLT(row, last), row, last), inner_ranges());
    b_.SetInsertPoint(scopes_.back().end);
    b_.CreateStore(from, b_.CreateGEP(b_.getPtrTy(), product_.pointers, b_.CreateSub(row, product_.first_row)));
  });
}

// The next panel's part that a tile fetches into the second cache level while it is multiplied. Together, the tiles of
// a work item fetch the slice that comes next, so that the first tile of a panel does not wait for memory. nullopt:
// columns do not lie in panels, or a tile runs through several Inner ranges, which only few elements have.
std::optional<Emitter::FetchedPart> Emitter::next_panel(int64_t rows, Value* row, Value* column, Value* begin,
                                                        Value* end) {
  const RegisterTile& t = k_.registers;
  const Instr& load = k_.instrs[product_.sum.column];
  if (t.packs_columns || !loops::step_of_columns(k_, product_.sum)->is_constant(t.columns * t.elements_of_step()) ||
      (product_.one_slice && !outer_ranges().empty()))
    return std::nullopt;
  b_.SetInsertPoint(scopes_.back().end);
  Value* const from = pointer_at(load, shape_.lane, b_.CreateAdd(column, number(t.columns)), inner_ranges().last(1));
  b_.SetInsertPoint(scopes_.back().end);
  const int64_t bytes = t.columns * int64_t{sizeof(float)};  // of a step
  const auto times = [&](Value* v, int64_t n) { return b_.CreateMul(v, number(n)); };
  Value* const all = b_.CreateSub(product_.end_row, product_.first_row);
  Value* const before = b_.CreateMul(b_.CreateSub(end, begin), b_.CreateSub(row, product_.first_row));
  FetchedPart part;
  part.begin = b_.CreateGEP(b_.getInt8Ty(), from, times(begin, bytes));
  part.begin = b_.CreateGEP(b_.getInt8Ty(), part.begin, b_.CreateUDiv(times(before, bytes), all));
  part.step = b_.CreateUDiv(number(rows * bytes), all);
  // Each line is fetched about once.
  constexpr int64_t kLine = 64;
  part.mask = number(0);
  for (const int64_t apart : {2, 4, 8, 16})
    part.mask = b_.CreateSelect(b_.CreateICmpULE(part.step, number(kLine / apart)), number(apart - 1), part.mask);
  return part;
}

// Adds up the products of a tile of `rows` rows and its first vectors of columns, over the steps from begin to end, and
// keeps its sums in scratch.
void Emitter::multiply(int64_t rows, int64_t vectors, Value* row, Value* column, Value* begin, Value* end) {
  const RegisterTile& t = k_.registers;
  const Instr &a = k_.instrs[product_.sum.row], &b = k_.instrs[product_.sum.column];
  llvm::Type* const word = b_.getFloatTy();
  const auto steps_bytes = [&](Value* steps) { return b_.CreateMul(steps, number(kStepBytes)); };
  const auto elements_bytes = [&](Value* elements) {
    return b_.CreateMul(elements, number(kStepBytes / t.elements_of_step()));
  };
  MicroKernel kernel{.rows = rows,
                     .vectors = vectors,
                     .lanes = lanes_,
                     .pairs = t.pairs,
                     .ends_in_half = loops::ends_in_half_step(k_)};
  MicroKernelOperands operands;
  using Form = MicroKernel::Rows;

  // The tile runs through these Inner ranges.
  const auto own = product_.one_slice ? inner_ranges() : inner_ranges().last(1);
  if (t.packs_rows) {
    const bool together = packs_rows_together();
    b_.SetInsertPoint(scopes_.back().end);
    operands.rows = b_.CreateGEP(word, product_.rows, packed_row(row));
    operands.row_bytes = number(together ? kStepBytes : loops::packed_row_pitch(k_) * kStepBytes);
    if (together) kernel.form = Form::Together, kernel.row_words = t.rows;
  } else if (product_.pointers) {
    Value* const slice = product_.one_slice ? number(0) : scalar(steps(start_of_rows()));
    b_.SetInsertPoint(scopes_.back().end);
    kernel.form = Form::Pointers;
    operands.rows = b_.CreateGEP(b_.getPtrTy(), product_.pointers, b_.CreateSub(row, product_.first_row));
    operands.row_bytes = steps_bytes(b_.CreateAdd(slice, begin));
  } else {
    Value* const from = pointer_at(a, shape_.row, row, own);
    Value* const stride = scalar(*coefficient_of(a.index, shape_.row));
    b_.SetInsertPoint(scopes_.back().end);
    operands.rows = b_.CreateGEP(word, from, begin);
    operands.row_bytes = elements_bytes(stride);
  }
  if (rows != t.rows && kernel.form == Form::Strided) {
    b_.SetInsertPoint(scopes_.back().end);
    kernel.form = Form::Clamped;
    operands.last_row = b_.CreateSub(b_.CreateSub(product_.end_row, number(1)), row);
  }
  if (t.packs_columns) {
    operands.columns = product_.columns;
    operands.column_bytes = number(t.columns * kStepBytes);
  } else {
    Value* const from = pointer_at(b, shape_.lane, column, own);
    Value* const step = scalar(steps(*loops::step_of_columns(k_, product_.sum)));
    b_.SetInsertPoint(scopes_.back().end);
    operands.column_bytes = steps_bytes(step);
    operands.columns = b_.CreatePtrAdd(from, b_.CreateMul(begin, operands.column_bytes));
  }
  // Without a next panel, the first step fetches a line that is there already.
  const FetchedPart next =
      next_panel(rows, row, column, begin, end).value_or(FetchedPart{operands.columns, number(0), number(-1)});
  operands.fetched = next.begin, operands.fetched_bytes = next.step, operands.mask = next.mask;
  for (const loops::Range& r : own.first(own.size() - 1)) {
    const auto of_rows = coefficient_of(a.index, r.var), of_columns = coefficient_of(b.index, r.var);
    VESTA_CHECK(of_rows && of_columns, "the windows of a product in registers lie at different distances");
    Value *const times = scalar(r.extent), *const row_step = scalar(*of_rows), *const column_step = scalar(*of_columns);
    b_.SetInsertPoint(scopes_.back().end);
    operands.windows.push_back({times, elements_bytes(row_step), elements_bytes(column_step)});
    ++kernel.windows;
  }
  b_.SetInsertPoint(scopes_.back().end);
  Value* const tile = tile_sums(row, column);
  operands.sums_bytes = number(t.columns * kStepBytes);
  operands.sums = b_.CreatePtrAdd(tile, b_.CreateMul(rows_into_tile(row), operands.sums_bytes));
  operands.steps = b_.CreateSub(end, begin);
  Value* const adds = product_.one_slice
                          ? b_.getFalse()
                          : b_.CreateNot(b_.CreateAnd(b_.CreateICmpEQ(begin, number(0)), product_.in_first));
  operands.adds = b_.CreateZExt(adds, b_.getInt64Ty());
  if (kernel.ends_in_half) operands.half = b_.CreateZExt(b_.CreateICmpEQ(end, product_.steps), b_.getInt64Ty());
  call_shared(shared_function(kernel), arguments(kernel, operands));
}

// How many rows of its tile come before this row.
Value* Emitter::rows_into_tile(Value* row) {
  return b_.CreateURem(b_.CreateSub(row, product_.first_row), number(k_.registers.rows));
}

// Where the sums of the tile of this row and column begin.
Value* Emitter::tile_sums(Value* row, Value* column) {
  if (product_.one_slice) return product_.sums;
  const RegisterTile& t = k_.registers;
  Value* const own = b_.CreateSub(b_.CreateSub(row, product_.first_row), rows_into_tile(row));
  // Each tile of columns has the sums of row_block rows.
  Value* const block = scalar(t.row_block);
  b_.SetInsertPoint(scopes_.back().end);
  Value* const rows = b_.CreateMul(column, block);
  return b_.CreateGEP(b_.getFloatTy(), product_.sums, b_.CreateAdd(rows, b_.CreateMul(own, number(t.columns))));
}

// The loads of finish_tile whose elements of a tile lie in parts of rows.
std::vector<const Instr*> Emitter::loads_of_finish() const {
  std::vector<const Instr*> loads;
  for (const loops::Stage& s : k_.stages)
    for (const Ref r : s.body) {
      const Instr& i = k_.instrs[r];
      if (s.loop || i.kind != loops::InstrKind::Load || !contains(i.index, shape_.row)) continue;
      if (const auto along = coefficient_of(i.index, shape_.lane); along && along->is_constant(1)) loads.push_back(&i);
    }
  return loads;
}

// Fetches the elements that finish_tile reads: they come from memory while the tile's sums are added up.
void Emitter::fetch_tile(std::span<const Instr* const> loads, Value* row, Value* last_row, Value* column) {
  loop(row, last_row, 1, 3, 4, true, shape_.row, [&](Value*) {
    for (const Instr* i : loads) {
      Value* const from = pointer_at(*i, shape_.lane, column, {});
      b_.SetInsertPoint(scopes_.back().end);
      const int64_t bytes = k_.registers.columns * int64_t{element_size(i->dtype)};
      for (int64_t at = 0; at < bytes; at += kLineFloats * int64_t{sizeof(float)})
        p_.prefetch(b_.CreateConstGEP1_64(b_.getInt8Ty(), from, static_cast<uint64_t>(at)));
    }
  });
}

// Runs the stages after the sums for the elements of a tile.
void Emitter::finish_tile(Value* row, Value* last_row, Value* column) {
  const RegisterTile& t = k_.registers;
  const Expr extent = k_.ranges[static_cast<size_t>(k_.vector)].extent;
  b_.SetInsertPoint(scopes_.back().end);
  Value* const sums = tile_sums(row, column);
  const bool whole = provably_divisible(extent, t.columns);
  Value* end = b_.CreateAdd(column, number(t.columns));
  if (!whole) end = b_.CreateSelect(b_.CreateICmpSLT(end, product_.end_column), end, product_.end_column);
  loop(row, last_row, 1, 3, 4, true, shape_.row, [&](Value* at) {
    b_.SetInsertPoint(scopes_.back().end);
    Value* const own = b_.CreateGEP(b_.getFloatTy(), sums, b_.CreateMul(b_.CreateSub(at, row), number(t.columns)));
    loop(column, end, lanes_, 4, 6, true, shape_.lane, [&](Value* lane) {
      b_.SetInsertPoint(scopes_.back().end);
      llvm::Type* const type = llvm::FixedVectorType::get(b_.getFloatTy(), static_cast<unsigned>(lanes_));
      Value* const from = b_.CreateGEP(b_.getFloatTy(), own, b_.CreateSub(lane, column));
      results_[product_.sum.sum] = {b_.CreateAlignedLoad(type, from, kFloat)};
      count_ = 1;
      if (!provably_divisible(extent, lanes_)) mask_ = tail_mask(lane, end);
      for (const loops::Stage& s : k_.stages)
        if (!s.loop) body(s);
      mask_ = nullptr;
    });
  });
}

}  // namespace vesta::codegen
