// Processes work items in groups of rows. Data along the rows is read in squares and transposed in registers, so that
// every cache line is used whole.
#include "base/check.h"
#include "codegen/llvm/emitter.h"
#include "codegen/llvm/transpose.h"

namespace vesta::codegen {

using llvm::Value;
using loops::Instr;
using loops::Ref;

// Splits [begin, end) into aligned groups of `rows` items and the items on either side, which narrower groups and then
// single items process.
void Emitter::tiled_items(Value* begin, Value* end, int64_t rows) {
  const bool outermost = rows == k_.tile.rows;
  if (rows == 1) {
    loop(begin, end, 1, 1, 2, false, 0, [&](Value* item) {
      decode(item);
      one_item();
    });
    return;
  }
  Value* low = b_.getInt64(static_cast<uint64_t>(-rows));
  Value* first = b_.CreateAnd(b_.CreateAdd(begin, b_.getInt64(static_cast<uint64_t>(rows - 1))), low);
  first = b_.CreateSelect(b_.CreateICmpSLT(first, end), first, end);
  Value* last = b_.CreateAnd(end, low);
  last = b_.CreateSelect(b_.CreateICmpSGT(last, first), last, first);
  loop(first, last, rows, outermost ? 0 : 1, 1, false, 0, [&](Value* item) { tile_group(item, rows); });
  loop(b_.getInt64(0), b_.getInt64(2), 1, outermost ? 0 : 1, 1, true, 0, [&](Value* side) {
    Value* after = b_.CreateICmpEQ(side, b_.getInt64(1));
    Value* from = b_.CreateSelect(after, last, begin);
    Value* to = b_.CreateSelect(after, end, first);
    tiled_items(from, to, rows > lanes_ ? lanes_ : 1);
  });
}

// Processes `rows` work items from `item` on.
void Emitter::tile_group(Value* item, int64_t rows) {
  const loops::Tile& tile = k_.tile;
  const int64_t width = k_.ranges[static_cast<size_t>(k_.vector)].extent.constant();
  decode(item);
  tile_row_ = scalar(tile.row);
  Value* row_end = b_.CreateAdd(tile_row_, b_.getInt64(static_cast<uint64_t>(rows)));
  loop(b_.getInt64(0), b_.getInt64(static_cast<uint64_t>(width)), tile.columns, 1, 1, true, 0, [&](Value* column) {
    tile_column_ = column;
    Value* column_end = b_.CreateAdd(column, b_.getInt64(static_cast<uint64_t>(tile.columns)));
    for (Ref r : tile.loads) {
      llvm::Type* element = p_.memory_type(k_.instrs[r].dtype, 1);
      llvm::AllocaInst* slot =
          p_.stack(llvm::ArrayType::get(element, static_cast<uint64_t>(rows * tile.pitch)), "tile");
      slot->setAlignment(llvm::Align(64));
      loop(column, column_end, lanes_, 1, 1, true, shape_.lane, [&](Value*) {
        prefetch_squares(r, rows);
        loop(tile_row_, row_end, lanes_, 1, 1, true, tile.row, [&](Value*) {
          tiles_[r] = slot;
          fill_tile(r);
          tiles_.erase(r);
        });
      });
      tiles_[r] = slot;
    }
    loop(tile_row_, row_end, 1, 1, 2, true, tile.row, [&](Value*) {
      const int count = shape_.pairs[0] && tile.columns % (2 * lanes_) == 0 ? 2 : 1;
      loop(column, column_end, int64_t{count} * lanes_, 2, 4, true, shape_.lane, [&](Value*) {
        count_ = count;
        pairs_ = count == 2;
        stages();
        prefetch_ahead(count);
        pairs_ = false;
      });
    });
    tiles_.clear();
  });
}

// Prefetches the lines of the next squares. The stride defeats the hardware's own prefetching.
void Emitter::prefetch_squares(Ref r, int64_t rows) {
  constexpr int64_t kLine = 64;
  const Instr& i = k_.instrs[r];
  Expr stride = *coefficient_of(i.index, shape_.lane);
  Value* offset = scalar(substitute(i.index, [&](Expr s) { return s == k_.tile.row ? Expr(0) : s; }) +
                         stride * Expr(int64_t{lanes_}));
  Value* step = scalar(stride);
  b_.SetInsertPoint(scopes_.back().end);
  llvm::Type* element = p_.memory_type(i.dtype, 1);
  Value* pointer = b_.CreateGEP(element, buffers_[static_cast<size_t>(i.buffer)], b_.CreateAdd(offset, tile_row_));
  for (int l = 0; l < lanes_; ++l) {
    for (int64_t byte = 0; byte < rows * element_size(i.dtype); byte += kLine) {
      p_.prefetch(b_.CreateConstGEP1_64(b_.getInt8Ty(), pointer, static_cast<uint64_t>(byte)));
    }
    pointer = b_.CreateGEP(element, pointer, step);
  }
}

// Reads a lanes x lanes square: vectors along the rows, transposed in registers.
void Emitter::fill_tile(Ref r) {
  const Instr& i = k_.instrs[r];
  Expr stride = *coefficient_of(i.index, shape_.lane);
  Value* offset = scalar(i.index);
  Value* step = scalar(stride);
  Value* row = scalar(k_.tile.row);
  Value* lane = scalar(shape_.lane);
  b_.SetInsertPoint(scopes_.back().end);
  llvm::Type* element = p_.memory_type(i.dtype, 1);
  Value* at_row = b_.CreateMul(b_.CreateSub(row, tile_row_), number(k_.tile.pitch));
  Value* place = b_.CreateAdd(at_row, b_.CreateSub(lane, tile_column_));
  TransposedRowsOperands operands;
  operands.from = b_.CreateGEP(element, buffers_[static_cast<size_t>(i.buffer)], offset);
  operands.from_bytes = b_.CreateMul(step, number(element_size(i.dtype)));
  operands.last_row = number(lanes_ - 1);
  operands.to = b_.CreateGEP(element, tiles_.at(r), place);
  operands.to_bytes = number(k_.tile.pitch * element_size(i.dtype));
  operands.count = number(lanes_);
  call_shared(shared_function(TransposedRows{.lanes = lanes_, .types = {i.dtype}}), arguments(operands));
}

Value* Emitter::load_from_tile(Ref r, int u) {
  VESTA_CHECK(u == 0 || pairs_, "a tile is read one vector or one pair at a time");
  const Instr& i = k_.instrs[r];
  Value* row = scalar(k_.tile.row);
  Value* lane = scalar(shape_.lane);
  at(shape_.innermost);
  Value* columns = b_.getInt64(static_cast<uint64_t>(k_.tile.pitch));
  Value* place = b_.CreateAdd(b_.CreateMul(b_.CreateSub(row, tile_row_), columns), b_.CreateSub(lane, tile_column_));
  Value* pointer = b_.CreateGEP(p_.memory_type(i.dtype, 1), tiles_.at(r), place);
  if (pairs_) return load_pair(i.dtype, pointer, r, u);
  llvm::Align align(static_cast<uint64_t>(element_size(i.dtype)));
  return p_.from_memory(i.dtype, b_.CreateAlignedLoad(p_.memory_type(i.dtype, lanes_), pointer, align));
}

}  // namespace vesta::codegen
