// Processes work items in groups of rows. Data along the rows is read in squares and transposed in registers, so that
// every cache line is used whole.
#include "base/check.h"
#include "codegen/llvm/emitter.h"

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
      prefetch(b_.CreateConstGEP1_64(b_.getInt8Ty(), pointer, static_cast<uint64_t>(byte)));
    }
    pointer = b_.CreateGEP(element, pointer, step);
  }
}

// Transposes a lanes x lanes square in log2(lanes) rounds, which swap ever smaller blocks across the diagonal.
void Emitter::turn_square(std::vector<Value*>& rows) {
  for (int block = lanes_ / 2; block >= 1; block /= 2) {
    llvm::SmallVector<int, 16> low, high;
    for (int l = 0; l < lanes_; ++l) {
      bool upper = l & block;
      low.push_back(upper ? lanes_ + l - block : l);
      high.push_back(upper ? lanes_ + l : l + block);
    }
    for (int l = 0; l < lanes_; ++l) {
      if (l & block) continue;
      Value* a = rows[static_cast<size_t>(l)];
      Value* b = rows[static_cast<size_t>(l + block)];
      rows[static_cast<size_t>(l)] = b_.CreateShuffleVector(a, b, low);
      rows[static_cast<size_t>(l + block)] = b_.CreateShuffleVector(a, b, high);
    }
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
  llvm::Type* type = p_.memory_type(i.dtype, lanes_);
  llvm::Align align(static_cast<uint64_t>(element_size(i.dtype)));
  Value* pointer = b_.CreateGEP(element, buffers_[static_cast<size_t>(i.buffer)], offset);
  std::vector<Value*> v;
  for (int l = 0; l < lanes_; ++l) {
    v.push_back(b_.CreateAlignedLoad(type, pointer, align));
    pointer = b_.CreateGEP(element, pointer, step);
  }
  turn_square(v);
  Value* columns = b_.getInt64(static_cast<uint64_t>(k_.tile.pitch));
  Value* at_row = b_.CreateMul(b_.CreateSub(row, tile_row_), columns);
  Value* place = b_.CreateAdd(at_row, b_.CreateSub(lane, tile_column_));
  Value* out = b_.CreateGEP(element, tiles_.at(r), place);
  for (int l = 0; l < lanes_; ++l) {
    b_.CreateAlignedStore(v[static_cast<size_t>(l)], out, align);
    out = b_.CreateGEP(element, out, columns);
  }
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
