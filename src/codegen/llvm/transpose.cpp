#include "codegen/llvm/transpose.h"

#include <fmt/format.h>

#include "codegen/llvm/blocks.h"
#include "codegen/llvm/primitives.h"

namespace vesta::codegen {

using llvm::Value;

namespace {

// Transposes squares of 4, 8 or 16 words: first the 4 x 4 squares inside of 128-bit parts, then the parts themselves.
// x86 has instructions for both that read no indices from memory (unpcklps and the like, vshuff32x4).
void transpose_words(llvm::IRBuilder<>& b, std::vector<Value*>& rows) {
  constexpr int kPart = 4;
  const auto lanes = static_cast<int>(rows.size());
  // Shuffles all 128-bit parts alike: 0 to 3 select elements of x's part, 4 to 7 elements of y's.
  const auto in_parts = [&](Value* x, Value* y, const int(&pattern)[kPart]) {
    llvm::SmallVector<int, 16> order;
    for (int part = 0; part < lanes; part += kPart)
      for (const int e : pattern) order.push_back(e < kPart ? part + e : lanes + part + e - kPart);
    return b.CreateShuffleVector(x, y, order);
  };
  for (size_t r = 0; r < rows.size(); r += kPart) {
    Value** const v = &rows[r];
    Value *const low01 = in_parts(v[0], v[1], {0, 4, 1, 5}), *const high01 = in_parts(v[0], v[1], {2, 6, 3, 7});
    Value *const low23 = in_parts(v[2], v[3], {0, 4, 1, 5}), *const high23 = in_parts(v[2], v[3], {2, 6, 3, 7});
    v[0] = in_parts(low01, low23, {0, 1, 4, 5});
    v[1] = in_parts(low01, low23, {2, 3, 6, 7});
    v[2] = in_parts(high01, high23, {0, 1, 4, 5});
    v[3] = in_parts(high01, high23, {2, 3, 6, 7});
  }
  // Part q of rows[4 g + j] belongs into part g of rows[4 q + j]. Each round puts the even parts of two rows into one
  // row, and the odd parts into another.
  const auto parts_of = [&](Value* x, Value* y, int first) {
    llvm::SmallVector<int, 16> order;
    for (int part = first; part < 2 * lanes / kPart; part += 2)
      for (int e = 0; e < kPart; ++e) order.push_back(part * kPart + e);
    return b.CreateShuffleVector(x, y, order);
  };
  const auto groups = rows.size() / kPart;
  for (size_t round = 1; round < groups; round *= 2) {
    std::vector<Value*> next(rows.size());
    for (size_t g = 0; g < groups / 2; ++g)
      for (size_t j = 0; j < kPart; ++j) {
        Value *const x = rows[2 * g * kPart + j], *const y = rows[(2 * g + 1) * kPart + j];
        next[g * kPart + j] = parts_of(x, y, 0);
        next[(g + groups / 2) * kPart + j] = parts_of(x, y, 1);
      }
    rows = std::move(next);
  }
}

}  // namespace

void transpose_square(llvm::IRBuilder<>& b, std::vector<Value*>& rows) {
  const auto lanes = static_cast<int>(rows.size());
  if (lanes >= 4 && rows[0]->getType()->getScalarSizeInBits() == 32) return transpose_words(b, rows);
  // Rounds that swap ever smaller blocks across the diagonal.
  for (int block = lanes / 2; block >= 1; block /= 2) {
    llvm::SmallVector<int, 16> low, high;
    for (int l = 0; l < lanes; ++l) {
      bool upper = l & block;
      low.push_back(upper ? lanes + l - block : l);
      high.push_back(upper ? lanes + l : l + block);
    }
    const auto apart = static_cast<size_t>(block);
    for (size_t l = 0; l < rows.size(); ++l) {
      if (l & apart) continue;
      Value *const x = rows[l], *const y = rows[l + apart];
      rows[l] = b.CreateShuffleVector(x, y, low);
      rows[l + apart] = b.CreateShuffleVector(x, y, high);
    }
  }
}

namespace {

// A vector of a row's elements, or words, which begin at this address.
Value* load_row(const TransposedRows& rows, Primitives& p, llvm::IRBuilder<>& b, Value* from) {
  const DType first = rows.types[0];
  if (rows.types.size() == 1 && !rows.pairs)  // elements keep their form in memory
    return b.CreateAlignedLoad(p.memory_type(first, rows.lanes), from,
                               llvm::Align(static_cast<uint64_t>(element_size(first))));
  Value* const v = p.load_converted(rows.types, rows.lanes * (rows.pairs ? 2 : 1), from);
  return rows.pairs ? b.CreateBitCast(p.bits_of_bf16(v), p.register_type(DType::F32, rows.lanes)) : v;
}

void emit_transposed(const TransposedRows& rows, llvm::Function& f, const Target& target) {
  llvm::IRBuilder<> b(f.getContext());
  b.SetInsertPoint(llvm::BasicBlock::Create(f.getContext(), "entry", &f));
  Primitives p(b, *f.getParent(), target);
  auto argument = f.arg_begin();
  const auto next = [&] { return &*argument++; };
  Value *const from = next(), *const from_bytes = next(), *const last_row = next(), *const to = next();
  Value *const to_bytes = next(), *const count = next();
  const auto number = [&](int64_t n) { return b.getInt64(static_cast<uint64_t>(n)); };
  const auto smaller = [&](Value* x, Value* y) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y); };
  std::vector<Value*> begins;
  for (int r = 0; r < rows.lanes; ++r)
    begins.push_back(b.CreatePtrAdd(from, b.CreateMul(smaller(number(r), last_row), from_bytes)));
  // The last square ends at the end of the rows, so it may overlap the square before it.
  Value* const latest = b.CreateSub(count, number(rows.lanes));
  emit_loop(b, number(0), count, rows.lanes, true, [&](Value* k) {
    Value* const first = smaller(k, latest);
    Value* const bytes = b.CreateMul(first, number(element_size(rows.types[0]) * (rows.pairs ? 2 : 1)));
    std::vector<Value*> v;
    for (Value* begin : begins) v.push_back(load_row(rows, p, b, b.CreatePtrAdd(begin, bytes)));
    transpose_square(b, v);
    Value* place = b.CreatePtrAdd(to, b.CreateMul(first, to_bytes));
    for (Value* x : v) {
      const llvm::Align align(x->getType()->getScalarSizeInBits() / 8);
      b.CreateAlignedStore(x, place, align);
      place = b.CreatePtrAdd(place, to_bytes);
    }
  });
  b.CreateRetVoid();
}

}  // namespace

SharedFunction shared_function(const TransposedRows& rows) {
  std::string text = fmt::format("transposed_rows_{}{}", rows.lanes, rows.pairs ? "_pairs" : "");
  for (const DType t : rows.types) text += fmt::format("_{}", name(t));
  const auto type = [](llvm::LLVMContext& context) {
    llvm::Type *const pointer = llvm::PointerType::getUnqual(context), *const integer = llvm::Type::getInt64Ty(context);
    return llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                   {pointer, integer, integer, pointer, integer, integer}, false);
  };
  return {text, type, [rows](llvm::Function& f, const Target& target) { emit_transposed(rows, f, target); }};
}

std::vector<Value*> arguments(const TransposedRowsOperands& o) {
  return {o.from, o.from_bytes, o.last_row, o.to, o.to_bytes, o.count};
}

}  // namespace vesta::codegen
