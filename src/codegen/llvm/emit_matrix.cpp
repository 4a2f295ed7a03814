// A product whose sums are in registers for matrices (RegisterTile::depth): AMX. Such a register has up to 16 rows of
// 64 bytes: 16 sums of a row, up to 16 pairs of a row, or a pair of each of 16 columns. An instruction adds the
// products of `depth` steps of 16 rows to the sums of 16 columns; a tile has up to two registers of rows and two of
// columns.
//
// A register's rows and columns are configured, and a configuration clears the registers. So the rows that do not fill
// a tile come after all others of a slice, and the steps that do not fill an instruction are a part of their own, whose
// sums begin with those in memory. The instructions name their registers, so that LLVM allocates none.
#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/micro_kernel.h"
#include "codegen/llvm/transpose.h"

namespace vesta::codegen {

using llvm::Value;
using loops::Instr;
using loops::kMatrixRows;
using loops::kMostMatrices;
using loops::RegisterTile;

namespace {

// The first register of a kind. Those of sums are numbered row by row.
constexpr int64_t kSums = 0, kRows = kMostMatrices * kMostMatrices, kColumns = kRows + kMostMatrices;
constexpr int64_t kLine = 64;  // bytes of a register's row
const llvm::Align kWordAlign(kStepBytes);

}  // namespace

// Whether all registers have the same sizes at any time.
bool Emitter::has_one_configuration() const {
  const Expr rows = k_.ranges[static_cast<size_t>(k_.vector) - 1].extent;
  return provably_divisible(rows, k_.registers.rows) &&
         provably_divisible(steps(k_.ranges.back().extent), k_.registers.depth);
}

// Clears the registers and sets their sizes: for a tile of so many rows, and instructions of so many steps.
void Emitter::configure_matrices(Value* rows, Value* depth) {
  if (!product_.configuration)
    product_.configuration = p_.stack(llvm::ArrayType::get(b_.getInt64Ty(), kLine / 8), "configuration");
  b_.SetInsertPoint(scopes_.back().end);
  Value *const most = number(kMatrixRows), *const one = number(1);
  Value *const first = b_.CreateSelect(b_.CreateICmpSLT(rows, most), rows, most), *second = b_.CreateSub(rows, first);
  second = b_.CreateSelect(b_.CreateICmpSLT(second, one), one, second);  // a register without rows is an error
  const auto times = [&](Value* v, uint64_t n) { return b_.CreateMul(v, b_.getInt64(n)); };
  const auto with = [&](Value* v, Value* more) { return b_.CreateOr(v, more); };
  // Palette 1; 16 bits for the bytes of a row of each register; 8 bits for its rows.
  Value* words[kLine / 8];
  std::fill(std::begin(words), std::end(words), number(0));
  words[0] = one;
  words[2] = b_.getInt64(0x0040'0040'0040'0040);
  words[3] = with(times(depth, 0x0004'0004), b_.getInt64(0x0040'0040'0000'0000));
  words[6] =
      with(with(times(first, 0x0001'0000'0101), times(second, 0x0100'0101'0000)), times(depth, 0x0101'0000'0000'0000));
  for (size_t i = 0; i < std::size(words); ++i)
    b_.CreateStore(words[i], b_.CreateConstGEP1_64(b_.getInt64Ty(), product_.configuration, i));
  b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {product_.configuration});
}

void Emitter::release_matrices() {
  b_.SetInsertPoint(scopes_.back().end);
  b_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
}

// The tiles of the work item, over the steps of a slice.
void Emitter::matrix_slice(Value* begin, Value* end) {
  const RegisterTile& t = k_.registers;
  const auto columns = [&](const std::function<void(Value*)>& body) {
    loop(number(0), product_.end_column, t.columns, scopes_.back().level, 3, true, 0, body);
  };
  if (t.packs_rows) pack_rows(begin, end);
  if (t.packs_columns) {
    columns([&](Value* column) {
      pack_columns(column, begin, end);
      matrix_parts(begin, end, [&](const MatrixPart& part) { matrix_tiles(part, column); });
    });
  } else {
    matrix_parts(begin, end,
                 [&](const MatrixPart& part) { columns([&](Value* column) { matrix_tiles(part, column); }); });
  }
}

// Runs the body for the parts of a slice that need registers of other sizes.
void Emitter::matrix_parts(Value* begin, Value* end, const std::function<void(const MatrixPart&)>& body) {
  const RegisterTile& t = k_.registers;
  const Expr rows = k_.ranges[static_cast<size_t>(k_.vector) - 1].extent;
  const auto of_rows = [&](MatrixPart part) {
    const auto with = [&](Value* first, Value* last, Value* tile_rows) {
      part.first_row = first, part.end_row = last;
      if (!has_one_configuration()) configure_matrices(tile_rows, part.depth);
      body(part);
    };
    if (provably_divisible(rows, t.rows)) return with(product_.first_row, product_.end_row, number(t.rows));
    b_.SetInsertPoint(scopes_.back().end);
    Value* const all = b_.CreateSub(product_.end_row, product_.first_row);
    Value* const left = b_.CreateURem(all, number(t.rows));
    Value* const whole = b_.CreateSub(product_.end_row, left);
    if (!provably_at_least(t.rows - 1, rows))
      run_if(b_.CreateICmpSLT(product_.first_row, whole), [&] { with(product_.first_row, whole, number(t.rows)); });
    part.is_rest = true;
    run_if(b_.CreateICmpNE(left, number(0)), [&] { with(whole, product_.end_row, left); });
  };
  MatrixPart part{.slice = begin, .begin = begin, .end = end, .depth = number(t.depth)};
  if (provably_divisible(steps(k_.ranges.back().extent), t.depth)) return of_rows(part);
  b_.SetInsertPoint(scopes_.back().end);
  Value* const left = b_.CreateURem(b_.CreateSub(end, begin), part.depth);
  Value* const whole = b_.CreateSub(end, left);
  part.end = whole;
  run_if(b_.CreateICmpSLT(begin, whole), [&] { of_rows(part); });
  run_if(b_.CreateICmpNE(left, number(0)),
         [&] { of_rows({.slice = begin, .begin = whole, .end = end, .depth = left}); });
}

// The part's tiles of these columns.
void Emitter::matrix_tiles(const MatrixPart& part, Value* column) {
  const RegisterTile& t = k_.registers;
  const Expr rows = k_.ranges[static_cast<size_t>(k_.vector) - 1].extent;
  const Expr columns = k_.ranges[static_cast<size_t>(k_.vector)].extent;
  const std::vector<const Instr*> loads = loads_of_finish();
  const int64_t matrices = t.rows / kMatrixRows, vectors = t.columns / lanes_;
  const int64_t fewer = provably_divisible(columns, t.columns) ? vectors : loops::vectors_of_few_columns(vectors);
  // Runs the body with n, or with the half of it where so few rows or columns are left.
  const auto as_many = [&](int64_t n, int64_t few, Value* left, const std::function<void(int64_t)>& body) {
    if (few == n) return body(n);
    b_.SetInsertPoint(scopes_.back().end);
    Value* const is_few = b_.CreateICmpSLE(left, number(few * kMatrixRows));
    run_if(is_few, [&] { body(few); });
    run_if(b_.CreateNot(is_few), [&] { body(n); });
  };
  loop(part.first_row, part.end_row, t.rows, 3, 3, true, 0, [&](Value* row) {
    b_.SetInsertPoint(scopes_.back().end);
    Value* const last = part.is_rest ? part.end_row : b_.CreateAdd(row, number(t.rows));
    const auto at_end = [&](const std::function<void()>& body) {
      if (product_.one_slice) return body();
      b_.SetInsertPoint(scopes_.back().end);
      run_if(b_.CreateAnd(product_.in_last, b_.CreateICmpEQ(part.end, product_.steps)), body);
    };
    if (!loads.empty()) at_end([&] { fetch_tile(loads, row, last, column); });
    int64_t most = matrices, few = matrices;
    if (part.is_rest && rows.is_constant()) {
      most = few = (rows.constant() % t.rows + kMatrixRows - 1) / kMatrixRows;
    } else if (part.is_rest) {
      few = 1;
    }
    b_.SetInsertPoint(scopes_.back().end);
    Value *const left_rows = b_.CreateSub(last, row), *const left_columns = b_.CreateSub(product_.end_column, column);
    as_many(most, few, left_rows, [&](int64_t m) {
      as_many(vectors, fewer, left_columns, [&](int64_t n) { multiply_matrices(m, n, part, row, column); });
    });
    b_.SetInsertPoint(scopes_.back().end);
    at_end([&] { finish_tile(row, last, column); });
  });
}

// Where the first step of a packed row is; rows count from those of the work item.
Value* Emitter::packed_matrix_row(Value* row) {
  Value* const in_matrix = b_.CreateURem(row, number(kMatrixRows));
  Value* const before = b_.CreateMul(b_.CreateSub(row, in_matrix), number(loops::packed_row_pitch(k_)));
  return b_.CreateAdd(before, b_.CreateMul(in_matrix, number(loops::kMatrixColumns)));
}

// How far a step, at which an instruction begins, is from the first one of a packed row.
Value* Emitter::packed_instruction(Value* step) {
  return b_.CreateMul(b_.CreateUDiv(step, number(k_.registers.depth)), number(kMatrixRows * loops::kMatrixColumns));
}

// The same for an element of any step, in elements.
Value* Emitter::packed_element(Value* element) {
  Value *const each = number(k_.registers.elements_of_step()), *const depth = number(k_.registers.depth);
  Value *const step = b_.CreateUDiv(element, each), *const in_instruction = b_.CreateURem(step, depth);
  Value* const words = b_.CreateAdd(packed_instruction(step), in_instruction);
  return b_.CreateAdd(b_.CreateMul(words, each), b_.CreateURem(element, each));
}

// How far the elements of the outer Inner ranges' values are from the first ones of a packed row.
Value* Emitter::start_of_packed_rows() {
  Expr window = 0;
  for (const loops::Range& r : outer_ranges()) window = window * r.extent + r.var;
  Value* const step = scalar(window * steps(k_.ranges.back().extent));
  b_.SetInsertPoint(scopes_.back().end);
  return packed_instruction(step);
}

// Adds up the products of a tile's first registers of rows and of columns over the steps of the part, and keeps its
// sums in scratch.
void Emitter::multiply_matrices(int64_t matrices, int64_t vectors, const MatrixPart& part, Value* row, Value* column) {
  const RegisterTile& t = k_.registers;
  const Instr &a = k_.instrs[product_.sum.row], &b = k_.instrs[product_.sum.column];
  llvm::Type* const word = b_.getFloatTy();
  const auto bytes = [&](Value* words) { return b_.CreateMul(words, number(kStepBytes)); };
  const auto after = [&](Value* pointer, Value* words) { return b_.CreateGEP(word, pointer, words); };
  const bool windows = product_.one_slice && !outer_ranges().empty();
  const auto own = product_.one_slice ? inner_ranges() : inner_ranges().last(1);

  // Where the operands of step 0 are, and the bytes from one of a register's rows to the next.
  Value *rows_at, *rows_apart, *columns_at, *column_step = number(t.columns);
  if (t.packs_rows) {
    b_.SetInsertPoint(scopes_.back().end);
    rows_at = after(product_.rows, packed_row(row));
    rows_apart = number(kLine);
  } else {
    rows_at = pointer_at(a, shape_.row, row, own);
    Value* const stride = scalar(*coefficient_of(a.index, shape_.row));
    b_.SetInsertPoint(scopes_.back().end);
    rows_apart = b_.CreateMul(stride, number(element_size(DType::BF16)));
  }
  if (t.packs_columns) {
    b_.SetInsertPoint(scopes_.back().end);
    columns_at = after(product_.columns, b_.CreateNeg(b_.CreateMul(part.slice, column_step)));
  } else {
    columns_at = pointer_at(b, shape_.lane, column, own);
    column_step = scalar(steps(*loops::step_of_columns(k_, product_.sum)));
  }
  const std::optional<FetchedPart> next = next_panel(t.rows, row, column, part.begin, part.end);
  b_.SetInsertPoint(scopes_.back().end);
  Value *const columns_apart = bytes(column_step), *const sums_apart = number(kStepBytes * t.columns);
  Value* const sums_at = after(tile_sums(row, column), b_.CreateMul(rows_into_tile(row), number(t.columns)));
  Value* const matrix_apart = t.packs_rows ? number(kStepBytes * kMatrixRows * loops::packed_row_pitch(k_))
                                           : b_.CreateMul(rows_apart, number(kMatrixRows));

  const auto load = [&](int64_t matrix, Value* from, Value* apart) {
    b_.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64, {}, {b_.getInt8(static_cast<uint8_t>(matrix)), from, apart});
  };
  const auto for_each_sum = [&](const std::function<void(int64_t matrix, Value* at)>& fn) {
    for (int64_t m = 0; m < matrices; ++m)
      for (int64_t n = 0; n < vectors; ++n) {
        const int64_t at = m * kMatrixRows * t.columns + n * lanes_;
        fn(kSums + m * kMostMatrices + n, b_.CreateConstGEP1_64(word, sums_at, static_cast<uint64_t>(at)));
      }
  };
  // The first sums are zeros.
  Value* const first = b_.CreateAnd(product_.in_first, b_.CreateICmpEQ(part.begin, number(0)));
  Value* const sums_from_apart = b_.CreateSelect(first, number(0), sums_apart);
  for_each_sum([&](int64_t matrix, Value* at) {
    if (product_.one_slice) {
      b_.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {b_.getInt8(static_cast<uint8_t>(matrix))});
    } else {
      load(matrix, readable(at, b_.CreateNot(first)), sums_from_apart);
    }
  });
  const auto add_products = [&](Value* rows_from, Value* columns_from) {
    loop(part.begin, part.end, part.depth, 3, 3, true, 0, [&](Value* step) {
      if (next) fetch_lines(*next, b_.CreateSub(step, part.begin), part.depth);
      b_.SetInsertPoint(scopes_.back().end);
      Value* const row_at = after(rows_from, t.packs_rows ? packed_instruction(b_.CreateSub(step, part.slice)) : step);
      Value* const column_at = after(columns_from, b_.CreateMul(step, column_step));
      for (int64_t n = 0; n < vectors; ++n)
        load(kColumns + n, b_.CreateConstGEP1_64(word, column_at, static_cast<uint64_t>(n * lanes_)), columns_apart);
      for (int64_t m = 0; m < matrices; ++m) {
        load(kRows + m, m == 0 ? row_at : b_.CreateGEP(b_.getInt8Ty(), row_at, matrix_apart), rows_apart);
        for (int64_t n = 0; n < vectors; ++n)
          b_.CreateIntrinsic(
              llvm::Intrinsic::x86_tdpbf16ps, {},
              {b_.getInt8(static_cast<uint8_t>(kSums + m * kMostMatrices + n)),
               b_.getInt8(static_cast<uint8_t>(kRows + m)), b_.getInt8(static_cast<uint8_t>(kColumns + n))});
      }
    });
  };
  if (windows) {
    product_slices(outer_ranges(), [&] {
      Value* const offset = t.packs_rows ? start_of_packed_rows() : scalar(steps(start_of_rows()));
      Value* const columns_from = pointer_at(b, shape_.lane, column, own.last(1));
      b_.SetInsertPoint(scopes_.back().end);
      add_products(after(rows_at, offset), columns_from);
    });
  } else {
    add_products(rows_at, columns_at);
  }
  b_.SetInsertPoint(scopes_.back().end);
  for_each_sum([&](int64_t matrix, Value* at) {
    b_.CreateIntrinsic(llvm::Intrinsic::x86_tilestored64, {},
                       {b_.getInt8(static_cast<uint8_t>(matrix)), at, sums_apart});
  });
}

// Fetches what the steps of an instruction fetch.
void Emitter::fetch_lines(const FetchedPart& part, Value* step, Value* depth) {
  b_.SetInsertPoint(scopes_.back().end);
  Value* const from = b_.CreateGEP(b_.getInt8Ty(), part.begin, b_.CreateMul(step, part.step));
  loop(number(0), b_.CreateMul(depth, part.step), kLine, 3, 3, false, 0, [&](Value* at) {
    b_.SetInsertPoint(scopes_.back().end);
    p_.prefetch(b_.CreateGEP(b_.getInt8Ty(), from, at), 2);
  });
}

// Copies rows whose elements are neighbours, the steps of an instruction at a time. What lies past the end counts as
// zero.
void Emitter::copy_rows(Value* begin, Value* end) {
  const Instr& i = k_.instrs[product_.sum.row];
  const Expr extent = k_.ranges.back().extent;
  const int64_t each = k_.registers.elements_of_step(), elements = each * lanes_;
  llvm::Type* const word = b_.getFloatTy();
  llvm::Type* const type = llvm::FixedVectorType::get(operand_type(), static_cast<unsigned>(elements));
  const bool whole = k_.registers.depth == lanes_ && provably_divisible(extent, elements);
  Value* const all = scalar(extent);
  loop(product_.first_row, product_.end_row, 1, scopes_.back().level, 4, true, shape_.row, [&](Value* row) {
    packed_windows([&](Value* start) {
      Value* const from = pointer_at(i, shape_.row, row, inner_ranges().last(1));
      b_.SetInsertPoint(scopes_.back().end);
      Value* const to = b_.CreateGEP(word, product_.rows, b_.CreateAdd(packed_row(row), start));
      loop(begin, end, k_.registers.depth, 3, 3, true, 0, [&](Value* step) {
        b_.SetInsertPoint(scopes_.back().end);
        Value* const at = b_.CreateGEP(word, from, step);
        Value* v;
        if (whole) {
          v = b_.CreateAlignedLoad(type, at, operand_align());
        } else {
          Value* left = b_.CreateSub(all, b_.CreateMul(step, number(each)));
          left = b_.CreateSelect(b_.CreateICmpSLT(left, number(elements)), left, number(elements));
          llvm::SmallVector<uint16_t, 32> iota;
          for (int64_t n = 0; n < elements; ++n) iota.push_back(static_cast<uint16_t>(n));
          Value* const most =
              b_.CreateVectorSplat(static_cast<unsigned>(elements), b_.CreateTrunc(left, b_.getInt16Ty()));
          Value* const mask = b_.CreateICmpULT(llvm::ConstantDataVector::get(m_.getContext(), iota), most);
          v = b_.CreateMaskedLoad(type, at, operand_align(), mask, llvm::Constant::getNullValue(type));
        }
        Value* const place = packed_instruction(b_.CreateSub(step, begin));
        b_.CreateAlignedStore(v, b_.CreateGEP(word, to, place), kWordAlign);
      });
    });
  });
}

// Packs rows that are neighbours in memory: reads squares of 16 rows and 16 steps, and transposes them in registers;
// two of them share cache lines. Steps past the end are the last one. Returns the first row that is left.
Value* Emitter::transpose_rows(Value* begin, Value* end) {
  const Instr& i = k_.instrs[product_.sum.row];
  llvm::Type* const word = b_.getFloatTy();
  llvm::Type* const type = llvm::FixedVectorType::get(operand_type(), static_cast<unsigned>(lanes_));
  llvm::Type* const words = llvm::FixedVectorType::get(word, static_cast<unsigned>(lanes_));
  llvm::SmallVector<int, 32> order;
  for (int r = 0; r < lanes_; ++r) order.append({r, lanes_ + r});
  const int64_t matrix = kMatrixRows * loops::packed_row_pitch(k_);
  // Transposes so many squares beside each other.
  const auto turn = [&](int64_t squares, Value* first, Value* last, Value* to) {
    std::vector<std::vector<Value*>> v(static_cast<size_t>(squares));
    for (int64_t s = 0; s < lanes_; ++s) {
      b_.SetInsertPoint(scopes_.back().end);
      Value* step = b_.CreateAdd(first, number(s));
      step = b_.CreateSelect(b_.CreateICmpSLT(step, last), step, last);
      std::vector<Value*> from;  // of each element of the step
      for (int64_t e = 0; e < k_.registers.elements_of_step(); ++e)
        at_element(step, e, [&](Value*) {
          from.push_back(base_pointer(i.buffer, i.index));
          prefetch_inner(i, squares * lanes_);
        });
      b_.SetInsertPoint(scopes_.back().end);
      for (int64_t n = 0; n < squares; ++n) {
        const auto element = [&](size_t e) {
          Value* const at = b_.CreateConstGEP1_64(operand_type(), from[e], static_cast<uint64_t>(n * lanes_));
          return b_.CreateAlignedLoad(type, at, operand_align());
        };
        v[static_cast<size_t>(n)].push_back(
            b_.CreateBitCast(b_.CreateShuffleVector(element(0), element(1), order), words));
      }
    }
    for (size_t n = 0; n < v.size(); ++n) {
      transpose_square(b_, v[n]);
      Value* at = b_.CreateConstGEP1_64(word, to, n * static_cast<uint64_t>(matrix));
      for (Value* x : v[n]) {
        b_.CreateAlignedStore(x, at, kWordAlign);
        at = b_.CreateConstGEP1_64(word, at, static_cast<uint64_t>(loops::kMatrixColumns));
      }
    }
  };
  Value* done = product_.first_row;
  for (const int64_t squares : {int64_t{2}, int64_t{1}}) {
    b_.SetInsertPoint(scopes_.back().end);
    Value *const rows = number(squares * kMatrixRows), *const left = b_.CreateSub(product_.end_row, done);
    Value* const end_of_these = b_.CreateAdd(done, b_.CreateSub(left, b_.CreateURem(left, rows)));
    loop(done, end_of_these, rows, scopes_.back().level, 4, false, shape_.row, [&](Value* row) {
      packed_windows([&](Value* start) {
        b_.SetInsertPoint(scopes_.back().end);
        Value* const to = b_.CreateGEP(word, product_.rows, b_.CreateAdd(packed_row(row), start));
        Value* const last = b_.CreateSub(end, number(1));
        loop(begin, end, k_.registers.depth, 4, shape_.innermost, true, 0, [&](Value* first) {
          b_.SetInsertPoint(scopes_.back().end);
          turn(squares, first, last, b_.CreateGEP(word, to, packed_instruction(b_.CreateSub(first, begin))));
        });
      });
    });
    done = end_of_these;
  }
  b_.SetInsertPoint(scopes_.back().end);
  return done;
}

// Runs the body for each part of a packed row, with the place where it starts.
void Emitter::packed_windows(const std::function<void(Value* start)>& body) {
  if (!product_.one_slice || outer_ranges().empty()) return body(number(0));
  product_slices(outer_ranges(), [&] { body(start_of_packed_rows()); });
}

}  // namespace vesta::codegen
