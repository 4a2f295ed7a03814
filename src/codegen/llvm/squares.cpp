#include "codegen/llvm/squares.h"

#include <fmt/format.h>

#include "codegen/llvm/blocks.h"
#include "codegen/llvm/primitives.h"

namespace vesta::codegen {

using llvm::Value;

namespace {

// Squares of 4, 8 or 16 words. First 4 x 4 squares within parts of 128 bits, then these parts: x86 has instructions for
// both that need no indices from memory ("unpack" and "shuffle" of parts).
void turn_words(llvm::IRBuilder<>& b, std::vector<Value*>& rows) {
  constexpr int kPart = 4;
  const auto lanes = static_cast<int>(rows.size());
  // Of each part: the elements of the pattern, of which 4 and above are those of the second operand.
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
  // Part q of rows[4 g + j] belongs into part g of rows[4 q + j]. Each round joins the even parts of two rows, and the
  // odd ones.
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

void turn_square(llvm::IRBuilder<>& b, std::vector<Value*>& rows) {
  const auto lanes = static_cast<int>(rows.size());
  if (lanes >= 4 && rows[0]->getType()->getScalarSizeInBits() == 32) return turn_words(b, rows);
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
Value* load_turned(const TurnedRows& rows, Primitives& p, llvm::IRBuilder<>& b, Value* from) {
  const DType first = rows.types[0];
  const llvm::Align align(static_cast<uint64_t>(element_size(first)));
  const int elements = rows.lanes * (rows.pairs ? 2 : 1);
  Value* v = b.CreateAlignedLoad(p.memory_type(first, elements), from, align);
  if (rows.types.size() == 1 && !rows.pairs) return v;
  v = p.from_memory(first, v);
  for (size_t n = 1; n < rows.types.size(); ++n) v = p.cast(rows.types[n - 1], rows.types[n], v);
  return rows.pairs ? b.CreateBitCast(p.bits_of_bf16(v), p.register_type(DType::F32, rows.lanes)) : v;
}

void emit_turned(const TurnedRows& rows, llvm::Function& f, const Target& target) {
  llvm::IRBuilder<> b(f.getContext());
  b.SetInsertPoint(llvm::BasicBlock::Create(f.getContext(), "entry", &f));
  Primitives p(b, *f.getParent(), target);
  auto argument = f.arg_begin();
  const auto next = [&] { return &*argument++; };
  Value *const from = next(), *const from_bytes = next(), *const last_row = next(), *const to = next();
  Value *const to_bytes = next(), *const count = next();
  const auto number = [&](int64_t n) { return b.getInt64(static_cast<uint64_t>(n)); };
  const auto bytes_from = [&](Value* address, Value* bytes) { return b.CreateGEP(b.getInt8Ty(), address, bytes); };
  const auto smaller = [&](Value* x, Value* y) { return b.CreateSelect(b.CreateICmpSLT(x, y), x, y); };
  std::vector<Value*> begins;
  for (int r = 0; r < rows.lanes; ++r)
    begins.push_back(bytes_from(from, b.CreateMul(smaller(number(r), last_row), from_bytes)));
  // The last square ends with the rows and may overlap the one before it.
  Value* const latest = b.CreateSub(count, number(rows.lanes));
  emit_loop(b, number(0), count, rows.lanes, true, [&](Value* k) {
    Value* const first = smaller(k, latest);
    Value* const bytes = b.CreateMul(first, number(element_size(rows.types[0]) * (rows.pairs ? 2 : 1)));
    std::vector<Value*> v;
    for (Value* begin : begins) v.push_back(load_turned(rows, p, b, bytes_from(begin, bytes)));
    turn_square(b, v);
    Value* place = bytes_from(to, b.CreateMul(first, to_bytes));
    for (Value* x : v) {
      const llvm::Align align(x->getType()->getScalarSizeInBits() / 8);
      b.CreateAlignedStore(x, place, align);
      place = bytes_from(place, to_bytes);
    }
  });
  b.CreateRetVoid();
}

}  // namespace

SharedFunction shared_function(const TurnedRows& rows) {
  std::string text = fmt::format("turned_rows_{}{}", rows.lanes, rows.pairs ? "_pairs" : "");
  for (const DType t : rows.types) text += fmt::format("_{}", name(t));
  const auto type = [](llvm::LLVMContext& context) {
    llvm::Type *const pointer = llvm::PointerType::getUnqual(context), *const integer = llvm::Type::getInt64Ty(context);
    return llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                   {pointer, integer, integer, pointer, integer, integer}, false);
  };
  return {text, type, [rows](llvm::Function& f, const Target& target) { emit_turned(rows, f, target); }};
}

std::vector<Value*> arguments(const TurnedRowsOperands& o) {
  return {o.from, o.from_bytes, o.last_row, o.to, o.to_bytes, o.count};
}

}  // namespace vesta::codegen
