#include "codegen/llvm/micro_kernel.h"

#include <fmt/format.h>
#include <llvm/IR/IRBuilder.h>

#include "codegen/llvm/blocks.h"
#include "loops/register_product.h"

namespace vesta::codegen {

using llvm::Value;

namespace {

// Rows that share a pointer. Of three rows, an x86 address has the distance once or twice as its index, so a tile of
// many rows needs few registers for addresses.
constexpr int64_t kRowsOfPointer = 3;
const llvm::Align kFloat(kStepBytes);

// The operands that a micro-kernel needs, in the order of its arguments.
std::vector<Value * MicroKernelOperands::*> needed(const MicroKernel& k) {
  using Operands = MicroKernelOperands;
  std::vector<Value * Operands::*> out = {&Operands::sums,          &Operands::sums_bytes, &Operands::adds,
                                          &Operands::rows,          &Operands::row_bytes,  &Operands::columns,
                                          &Operands::column_bytes,  &Operands::steps,      &Operands::fetched,
                                          &Operands::fetched_bytes, &Operands::mask};
  if (k.form == MicroKernel::Rows::Clamped) out.push_back(&Operands::last_row);
  if (k.ends_in_half) out.push_back(&Operands::half);
  return out;
}

class MicroKernelEmitter {
 public:
  MicroKernelEmitter(const MicroKernel& kernel, llvm::Function& function, const Target& target)
      : k_(kernel), f_(function), b_(function.getContext()), p_(b_, *function.getParent(), target) {}

  void run() {
    b_.SetInsertPoint(llvm::BasicBlock::Create(f_.getContext(), "entry", &f_));
    take_arguments();
    for (int64_t n = 0; n < k_.rows * k_.vectors; ++n) sums_.push_back(p_.stack(vector_type(), "sum"));
    column_ = p_.stack(b_.getPtrTy(), "column");
    find_rows();
    if (k_.windows > 0) {
      clear_sums();
      window(0, number(0), number(0));
      store_sums(o_.adds);
    } else {
      move_to(number(0), number(0));
      pieces();
    }
    b_.CreateRetVoid();
  }

 private:
  Value* number(int64_t n) { return b_.getInt64(static_cast<uint64_t>(n)); }
  llvm::Type* vector_type() { return llvm::FixedVectorType::get(b_.getFloatTy(), static_cast<unsigned>(k_.lanes)); }
  llvm::Type* operand_type() { return k_.pairs ? b_.getInt16Ty() : b_.getFloatTy(); }
  Value* smaller(Value* a, Value* b) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b); }

  void take_arguments() {
    auto argument = f_.arg_begin();
    for (Value* MicroKernelOperands::* operand : needed(k_)) o_.*operand = &*argument++;
    for (int64_t w = 0; w < k_.windows; ++w) o_.windows.push_back({&*argument++, &*argument++, &*argument++});
  }

  // Each row has an address in the forms Clamped and Pointers, and one offset, which moves from step to step, serves
  // all rows. In the other forms, addresses of every third row, or of the first one, move.
  bool has_offset() const { return k_.form == MicroKernel::Rows::Clamped || k_.form == MicroKernel::Rows::Pointers; }
  void find_rows() {
    using Rows = MicroKernel::Rows;
    const int64_t apart = k_.form == Rows::Together ? k_.rows : k_.form == Rows::Strided ? kRowsOfPointer : 1;
    for (int64_t r = 0; r < k_.rows; r += apart) {
      if (k_.form == Rows::Pointers) {
        Value* const place = b_.CreateConstGEP1_64(b_.getPtrTy(), o_.rows, static_cast<uint64_t>(r));
        first_.push_back(b_.CreateLoad(b_.getPtrTy(), place));
        continue;
      }
      Value* const at = k_.form == Rows::Clamped ? smaller(number(r), o_.last_row) : number(r);
      first_.push_back(b_.CreatePtrAdd(o_.rows, b_.CreateMul(o_.row_bytes, at)));
      if (!has_offset()) row_.push_back(p_.stack(b_.getPtrTy(), "row"));
    }
    if (has_offset()) offset_ = p_.stack(b_.getInt64Ty(), "offset");
  }
  // Where the next step of a row is.
  Value* row_at(int64_t r) {
    if (has_offset()) return b_.CreatePtrAdd(first_[static_cast<size_t>(r)], b_.CreateLoad(b_.getInt64Ty(), offset_));
    const auto load = [&](int64_t n) { return b_.CreateLoad(b_.getPtrTy(), row_[static_cast<size_t>(n)]); };
    if (k_.form == MicroKernel::Rows::Together)
      return b_.CreateConstGEP1_64(b_.getFloatTy(), load(0), static_cast<uint64_t>(r));
    const int64_t after = r % kRowsOfPointer;
    Value* const first = load(r / kRowsOfPointer);
    if (after == 0) return first;
    return b_.CreatePtrAdd(first, after == 1 ? o_.row_bytes : b_.CreateMul(o_.row_bytes, number(after)));
  }

  // The next step is the first one, so many bytes later.
  void move_to(Value* row_bytes, Value* column_bytes) {
    for (size_t n = 0; n < row_.size(); ++n) b_.CreateStore(b_.CreatePtrAdd(first_[n], row_bytes), row_[n]);
    if (k_.form == MicroKernel::Rows::Pointers) row_bytes = b_.CreateAdd(row_bytes, o_.row_bytes);
    if (has_offset()) b_.CreateStore(row_bytes, offset_);
    b_.CreateStore(b_.CreatePtrAdd(o_.columns, column_bytes), column_);
  }
  void move_on() {
    const int64_t words = k_.form == MicroKernel::Rows::Together ? k_.row_words : 1;
    for (llvm::AllocaInst* row : row_)
      b_.CreateStore(b_.CreatePtrAdd(b_.CreateLoad(b_.getPtrTy(), row), number(words * kStepBytes)), row);
    if (has_offset())
      b_.CreateStore(b_.CreateAdd(b_.CreateLoad(b_.getInt64Ty(), offset_), number(kStepBytes)), offset_);
    b_.CreateStore(b_.CreatePtrAdd(b_.CreateLoad(b_.getPtrTy(), column_), o_.column_bytes), column_);
  }

  void clear_sums() {
    for (llvm::AllocaInst* sum : sums_) b_.CreateStore(llvm::Constant::getNullValue(vector_type()), sum);
  }
  void store_sums(Value* adds) {
    std::vector<Value*> rows = {o_.sums};
    for (int64_t r = 1; r < k_.rows; ++r) rows.push_back(b_.CreatePtrAdd(rows.back(), o_.sums_bytes));
    const auto place = [&](size_t n) {
      const auto vectors = static_cast<size_t>(k_.vectors);
      return b_.CreateConstGEP1_64(vector_type(), rows[n / vectors], n % vectors);
    };
    emit_if(b_, b_.CreateICmpNE(adds, number(0)), [&] {
      for (size_t n = 0; n < sums_.size(); ++n) {
        Value* const before = b_.CreateAlignedLoad(vector_type(), place(n), kFloat);
        b_.CreateStore(b_.CreateFAdd(b_.CreateLoad(vector_type(), sums_[n]), before), sums_[n]);
      }
    });
    for (size_t n = 0; n < sums_.size(); ++n)
      b_.CreateAlignedStore(b_.CreateLoad(vector_type(), sums_[n]), place(n), kFloat);
  }

  // A sum has at most loops::kRegisterPiece steps before it is added to the sum of the pieces before it.
  void pieces() {
    emit_loop(b_, number(0), o_.steps, loops::kRegisterPiece, true, [&](Value* piece) {
      clear_sums();
      Value* const end = smaller(b_.CreateAdd(piece, number(loops::kRegisterPiece)), o_.steps);
      if (k_.ends_in_half) {
        Value* const half = b_.CreateSelect(b_.CreateICmpEQ(end, o_.steps), o_.half, number(0));
        emit_loop(b_, piece, b_.CreateSub(end, half), 1, false, [&](Value* step) { add_products(step, false); });
        emit_if(b_, b_.CreateICmpNE(half, number(0)), [&] { add_products(piece, true); });
      } else {
        emit_loop(b_, piece, end, 1, true, [&](Value* step) { add_products(step, false); });
      }
      store_sums(b_.CreateOr(o_.adds, piece));
    });
  }

  void window(size_t n, Value* row_bytes, Value* column_bytes) {
    if (n == o_.windows.size()) {
      move_to(row_bytes, column_bytes);
      return emit_loop(b_, number(0), o_.steps, 1, true, [&](Value* step) { add_products(step, false); });
    }
    const MicroKernelOperands::Window& w = o_.windows[n];
    emit_loop(b_, number(0), w.times, 1, true, [&](Value* i) {
      window(n + 1, b_.CreateAdd(row_bytes, b_.CreateMul(i, w.row_bytes)),
             b_.CreateAdd(column_bytes, b_.CreateMul(i, w.column_bytes)));
    });
  }

  // Adds the products of the next step. `half`: of its first element alone.
  void add_products(Value* step, bool half) {
    if (!half)
      emit_if(b_, b_.CreateICmpEQ(b_.CreateAnd(step, o_.mask), number(0)),
              [&] { p_.prefetch(b_.CreatePtrAdd(o_.fetched, b_.CreateMul(step, o_.fetched_bytes)), 2); });
    const llvm::Align align(k_.pairs ? 2 : kStepBytes);
    std::vector<Value*> columns;
    Value* const column = b_.CreateLoad(b_.getPtrTy(), column_);
    for (int64_t j = 0; j < k_.vectors; ++j) {
      Value* const place = b_.CreateConstGEP1_64(vector_type(), column, static_cast<uint64_t>(j));
      columns.push_back(b_.CreateAlignedLoad(vector_type(), place, align));
    }
    // Without an instruction for pairs, the products of their first elements are added up and then those of the second
    // ones: the registers have no room for both.
    const bool adds_pairs = k_.pairs && p_.adds_pairs(k_.lanes), widens = k_.pairs && !adds_pairs;
    for (int64_t element = 0; element < (widens && !half ? 2 : 1); ++element) {
      const auto part = [&](Value* words) { return widens ? p_.element_of_pair(words, element) : words; };
      std::vector<Value*> factors;
      for (Value* c : columns) factors.push_back(part(c));
      for (int64_t r = 0; r < k_.rows; ++r) {
        Value* x = b_.CreateAlignedLoad(half ? operand_type() : b_.getFloatTy(), row_at(r), align);
        if (half) x = b_.CreateBitCast(b_.CreateZExt(x, b_.getInt32Ty()), b_.getFloatTy());
        Value* const each = part(b_.CreateVectorSplat(static_cast<unsigned>(k_.lanes), x));
        for (int64_t j = 0; j < k_.vectors; ++j) {
          llvm::AllocaInst* const sum = sums_[static_cast<size_t>(r * k_.vectors + j)];
          Value *const factor = factors[static_cast<size_t>(j)], *const before = b_.CreateLoad(vector_type(), sum);
          b_.CreateStore(adds_pairs ? p_.add_pairs(each, factor, before) : p_.fma(each, factor, before), sum);
        }
      }
    }
    move_on();
  }

  const MicroKernel& k_;
  llvm::Function& f_;
  llvm::IRBuilder<> b_;
  Primitives p_;
  MicroKernelOperands o_;
  std::vector<llvm::AllocaInst*> sums_;
  std::vector<Value*> first_;           // find_rows()
  std::vector<llvm::AllocaInst*> row_;  // the same at the next step, without an offset
  llvm::AllocaInst* offset_ = nullptr;
  llvm::AllocaInst* column_ = nullptr;  // the address of the columns' next step
};

}  // namespace

SharedFunction shared_function(const MicroKernel& k) {
  constexpr const char* kForms[] = {"strided", "clamped", "together", "pointers"};
  const std::string name =
      fmt::format("micro_kernel_{}x{}x{}_{}{}{}{}{}", k.rows, k.vectors, k.lanes, kForms[static_cast<size_t>(k.form)],
                  k.form == MicroKernel::Rows::Together ? std::to_string(k.row_words) : "", k.pairs ? "_pairs" : "",
                  k.ends_in_half ? "_half" : "", k.windows > 0 ? fmt::format("_windows{}", k.windows) : "");
  const auto type = [k](llvm::LLVMContext& context) {
    using Operands = MicroKernelOperands;
    llvm::Type *const pointer = llvm::PointerType::getUnqual(context), *const integer = llvm::Type::getInt64Ty(context);
    std::vector<llvm::Type*> types;
    for (Value* Operands::* operand : needed(k)) {
      const bool is_address = operand == &Operands::sums || operand == &Operands::rows ||
                              operand == &Operands::columns || operand == &Operands::fetched;
      types.push_back(is_address ? pointer : integer);
    }
    types.insert(types.end(), static_cast<size_t>(3 * k.windows), integer);
    return llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false);
  };
  return {name, type, [k](llvm::Function& f, const Target& target) { MicroKernelEmitter(k, f, target).run(); }};
}

std::vector<Value*> arguments(const MicroKernel& k, const MicroKernelOperands& operands) {
  std::vector<Value*> out;
  for (Value* MicroKernelOperands::* operand : needed(k)) out.push_back(operands.*operand);
  for (const MicroKernelOperands::Window& w : operands.windows)
    out.insert(out.end(), {w.times, w.row_bytes, w.column_bytes});
  return out;
}

}  // namespace vesta::codegen
