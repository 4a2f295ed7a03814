// Emits one kernel as LLVM instructions.
//
// Code is placed by level (shape.h). Each open loop contributes two scopes, the block before it and its body, and a
// value is emitted into the latest scope whose level is not above its own. So invariant code leaves its loops. A vector
// value has `lanes` elements; an unrolled body processes several such pieces (`u`), one after another.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <unordered_map>

#include "codegen/llvm/primitives.h"
#include "codegen/llvm/shape.h"
#include "codegen/llvm/shared_function.h"
#include "loops/register_product.h"
#include "loops/turns.h"

namespace vesta::codegen {

inline constexpr int kMaxUnroll = 8;

class Emitter {
 public:
  // Calls grows(number of instructions) each time that the function has become about twice as large; it may throw.
  Emitter(Shape shape, llvm::Module& module, llvm::Function& function, const Target& target,
          std::function<void(int64_t)> grows);
  void run();
  // The shared functions that the kernel calls, by name. The module declares them.
  const std::map<std::string, SharedFunction>& shared_functions() const { return shared_; }

 private:
  using Ref = loops::Ref;
  static constexpr int kNarrow = 32;  // bits

  struct Scope {
    int level = 0;
    llvm::Instruction* end = nullptr;  // the scope's code goes before it
    std::map<std::pair<Ref, int>, llvm::Value*> values;
    std::map<std::pair<Ref, int>, llvm::Value*> splats;  // value, 0 or kNarrow
    std::unordered_map<Expr, llvm::Value*> scalars;      // index expressions, 64-bit
    std::map<std::pair<Expr, int>, llvm::Value*, bool (*)(const std::pair<Expr, int>&, const std::pair<Expr, int>&)>
        vectors;
    std::map<std::pair<int, uint64_t>, llvm::Value*> pointers;  // buffer, constant part of the index -> address
    Scope(int level, llvm::Instruction* end);
  };

  // The state of an Accumulate while its stage runs.
  struct Accumulator {
    Ref ref = 0;
    std::array<llvm::AllocaInst*, kMaxUnroll> value{}, position{};
    // Float sums: the pieces of a long reduction are combined in a tree of three levels.
    std::array<llvm::AllocaInst*, kMaxUnroll> second{}, third{};
  };

  // emitter.cpp: scopes, loops, values
  size_t scope_index(int level) const;
  // What an open scope has under this key in one of its maps; nullptr: none.
  template <class Map, class Key>
  llvm::Value* find(Map Scope::* map, const Key& key) const {
    for (size_t i = scopes_.size(); i-- > 0;)
      if (const auto it = (scopes_[i].*map).find(key); it != (scopes_[i].*map).end()) return it->second;
    return nullptr;
  }
  void at(int level);
  void loop(llvm::Value* start, llvm::Value* limit, llvm::Value* step, int before_level, int body_level,
            bool surely_runs, Expr var, const std::function<void(llvm::Value*)>& body);
  void loop(llvm::Value* start, llvm::Value* limit, int64_t step, int before_level, int body_level, bool surely_runs,
            Expr var, const std::function<void(llvm::Value*)>& body) {
    loop(start, limit, number(step), before_level, body_level, surely_runs, var, body);
  }
  void call_shared(const SharedFunction& function, const std::vector<llvm::Value*>& arguments);
  llvm::Value* get(Ref r, int u);
  llvm::Value* lanes(Ref r, int u);  // a vector, even if r is a scalar
  llvm::Value* emit_value(Ref r, int u);
  void items();
  void decode(llvm::Value* item);
  void one_item();
  void column_span();
  bool divided_span(llvm::Value* limit);
  void full_vectors(llvm::Value* from, llvm::Value* to, int count);
  void partial_vector(llvm::Value* from, llvm::Value* limit);
  bool may_overlap(std::span<const loops::Stage> stages, int64_t elements) const;
  bool columns_may_overlap() const;
  void stages();
  void loop_stage(const loops::Stage& s);
  void nest(const loops::Stage& s, size_t depth);
  void innermost(llvm::Value* start, llvm::Value* limit, int64_t step, int64_t trips, bool surely_runs, Expr var,
                 const std::function<void()>& body);
  void row_span(const loops::Stage& s, const Loop& l);
  void body(const loops::Stage& s);
  void effect(Ref r, int u);
  int row_unroll(const loops::Stage& s, Expr extent) const;
  int column_unroll() const;
  bool takes_pairs() const;
  size_t index_of(const loops::Stage& s) const;
  bool single_masked_loop(int weight) const;
  llvm::Value* tail_mask(llvm::Value* at, llvm::Value* limit);

  // emit_index.cpp
  llvm::Value* number(int64_t n) { return b_.getInt64(static_cast<uint64_t>(n)); }
  llvm::Value* scalar(Expr e);
  llvm::Value* scalar_parts(Expr e);
  llvm::Value* vector(Expr e, int u, llvm::Type* element);
  llvm::Value* divide(ExprKind kind, llvm::Value* a, llvm::Value* b, bool plain);
  static bool fits_32_bits(Expr e);
  llvm::Value* index_value(Expr e, int u, DType t);
  // Compares indices in 32 bits, of which a vector holds twice as many: two indices, or an index and a number that is
  // the same for all lanes. nullptr: r is something else.
  llvm::Value* compare_indices(Ref r, int u);
  // A 64-bit number for all lanes, clamped to 32 bits.
  llvm::Value* narrow_lanes(Ref r);
  // 1 + erf(x) as one function; nullptr: the instruction is something else, or the sum takes no longer.
  llvm::Value* one_plus_erf(Ref r, int u);
  // Whether r is a comparison of 64-bit integers that differs between lanes.
  bool compares_lanes(Ref r) const;

  // emit_memory.cpp
  llvm::Value* base_pointer(int buffer, Expr rest);
  llvm::Value* load(Ref r, int u);
  llvm::Value* readable(llvm::Value* pointer, llvm::Value* condition);
  llvm::Value* readable_run(const loops::Instr& i, int level, int u);
  bool selects_runs(Ref r, std::optional<loops::Instr>& leaf) const;
  llvm::Value* selected_run(Ref r, int level, int u);
  llvm::Value* load_selected(Ref r, int u);
  llvm::Value* load_reversed(const loops::Instr& i, llvm::Value* mask, int level, int u);
  void store(Ref r, int u);
  std::vector<Ref> interleaved(Ref r) const;
  const std::vector<Ref>& body_of(Ref r) const;
  void store_interleaved(const std::vector<Ref>& stores, int u);
  void store_run(llvm::Value* v, llvm::Value* pointer, const loops::Instr& i, llvm::Value* mask);
  void store_add(Ref r, int u);
  // Whether a store at this level writes one element; write_one() calls write(its address) where its mask holds.
  bool is_one_element(int level) const {
    return lanes_ == 1 || (shape_.kind == LoopKind::Rows && level == shape_.outside);
  }
  void write_one(const loops::Instr& i, int level, const std::function<void(llvm::Value*)>& write);
  llvm::Value* lane_pointers(const loops::Instr& i, int u);
  llvm::Value* combined_mask(Ref mask, int u, int level);
  llvm::Value* row_pointer(int slot, int u);
  llvm::Value* load_pair(DType t, llvm::Value* pointer, Ref r, int u);
  llvm::Value* stored_pair(const loops::Instr& i, int u);
  llvm::Value* run_pointer(const loops::Instr& i, int level, int u);
  llvm::Value* load_vector(llvm::Type* type, llvm::Value* pointer, int64_t align, llvm::Value* mask);
  void store_vector(llvm::Value* v, llvm::Value* pointer, int64_t align, llvm::Value* mask);
  bool streams(const loops::Instr& i, int64_t elements) const;
  void prefetch_ahead(int count);
  llvm::Value* strided_load(llvm::Value* pointer, DType t, int64_t stride);

  // emit_tile.cpp
  void tiled_items(llvm::Value* begin, llvm::Value* end, int64_t rows);
  void tile_group(llvm::Value* item, int64_t rows);
  void prefetch_squares(Ref r, int64_t rows);
  void fill_tile(Ref r);
  llvm::Value* load_from_tile(Ref r, int u);

  // emit_product.cpp
  void product_item();
  void run_if(llvm::Value* condition, const std::function<void()>& body);
  llvm::Value* pointer_at(const loops::Instr& load, Expr var, llvm::Value* value, std::span<const loops::Range> inner);
  void point_to_rows();
  std::span<const loops::Range> inner_ranges() const;
  std::span<const loops::Range> outer_ranges() const;
  Expr start_of_rows() const;
  void product_slices(std::span<const loops::Range> ranges, const std::function<void()>& body);
  void pack_rows(llvm::Value* begin, llvm::Value* end);
  void prefetch_inner(const loops::Instr& i, int64_t elements);
  void pack_columns(llvm::Value* column, llvm::Value* begin, llvm::Value* end);
  std::vector<llvm::Value*> words_of_columns(llvm::Value* step, int vectors, bool prefetches);
  void transpose_columns(const loops::Instr& i, llvm::Value* to, llvm::Value* begin, llvm::Value* end);
  bool slices_have_vectors() const;
  bool packs_rows_together() const;
  Expr steps(Expr elements) const;
  llvm::Type* operand_type();
  llvm::Align operand_align() const;
  std::vector<DType> conversions(Ref factor) const;
  llvm::Value* rows_of_step(std::span<llvm::Value* const> from, int64_t first_row);
  void at_element(llvm::Value* step, int64_t element, const std::function<void(llvm::Value* exists)>& body);
  llvm::Value* packed_row(llvm::Value* row);
  void multiply(int64_t rows, int64_t vectors, llvm::Value* row, llvm::Value* column, llvm::Value* begin,
                llvm::Value* end);
  struct FetchedPart {
    llvm::Value *begin = nullptr, *step = nullptr;  // an address, and bytes for each step
    llvm::Value* mask = nullptr;                    // steps in whose number these bits are 0 fetch a line
  };
  std::optional<FetchedPart> next_panel(int64_t rows, llvm::Value* row, llvm::Value* column, llvm::Value* begin,
                                        llvm::Value* end);
  llvm::Value* rows_into_tile(llvm::Value* row);
  llvm::Value* tile_sums(llvm::Value* row, llvm::Value* column);
  std::vector<const loops::Instr*> loads_of_finish() const;
  void fetch_tile(std::span<const loops::Instr* const> loads, llvm::Value* row, llvm::Value* last_row,
                  llvm::Value* column);
  void finish_tile(llvm::Value* row, llvm::Value* last_row, llvm::Value* column);

  // emit_matrix.cpp
  // Steps from begin to end of a slice, and rows, for which the registers have one configuration.
  struct MatrixPart {
    llvm::Value* slice = nullptr;  // the slice's first step
    llvm::Value *begin = nullptr, *end = nullptr;
    llvm::Value* depth = nullptr;  // steps of an instruction
    llvm::Value *first_row = nullptr, *end_row = nullptr;
    bool is_rest = false;  // the rows that do not fill a tile
  };
  bool has_one_configuration() const;
  void configure_matrices(llvm::Value* rows, llvm::Value* depth);
  void release_matrices();
  void matrix_slice(llvm::Value* begin, llvm::Value* end);
  void matrix_parts(llvm::Value* begin, llvm::Value* end, const std::function<void(const MatrixPart&)>& body);
  void matrix_tiles(const MatrixPart& part, llvm::Value* column);
  void multiply_matrices(int64_t matrices, int64_t vectors, const MatrixPart& part, llvm::Value* row,
                         llvm::Value* column);
  void fetch_lines(const FetchedPart& part, llvm::Value* step, llvm::Value* depth);
  llvm::Value* packed_matrix_row(llvm::Value* row);
  llvm::Value* packed_instruction(llvm::Value* step);
  llvm::Value* packed_element(llvm::Value* element);
  llvm::Value* start_of_packed_rows();
  void packed_windows(const std::function<void(llvm::Value* start)>& body);
  void copy_rows(llvm::Value* begin, llvm::Value* end);
  llvm::Value* transpose_rows(llvm::Value* begin, llvm::Value* end);

  // emit_reduce.cpp
  llvm::Constant* identity(ReduceOp op, DType t, int lanes);
  llvm::Value* combine(ReduceOp op, DType t, llvm::Value* a, llvm::Value* b);
  std::pair<llvm::Value*, llvm::Value*> better(ReduceOp op, DType t, std::pair<llvm::Value*, llvm::Value*> a,
                                               std::pair<llvm::Value*, llvm::Value*> b);
  void begin_reductions(const loops::Stage& s, int count);
  void end_reductions();
  void accumulate(Ref r, int u);
  llvm::Value* scan(Ref r, int u);
  void flush();

  const std::function<void(int64_t)> grows_;
  int64_t emitted_ = 0, checked_at_ = 512;  // values

  Shape shape_;
  const loops::Kernel& k_;
  llvm::Module& m_;
  llvm::Function& f_;
  llvm::IRBuilder<> b_;
  Primitives p_;
  int lanes_;

  std::map<std::string, SharedFunction> shared_;
  std::vector<Scope> scopes_;
  std::vector<llvm::Value*> buffers_;
  llvm::Value* zero_ = nullptr;  // eight zero bytes per lane, read by masked loads without active lanes
  int count_ = 1;                // pieces that the current body processes
  bool pairs_ = false;           // pieces 2p and 2p + 1 are the even and the odd elements of a run (Shape::pairs)
  bool overlaps_ = false;        // the current vector begins anywhere (may_overlap)
  std::map<Ref, bool> known_;    // comparisons that have one value for all lanes of the current loop
  llvm::Value* mask_ = nullptr;  // of the only piece, if it is not full
  std::vector<Accumulator> accumulators_;
  std::map<Ref, std::array<llvm::AllocaInst*, kMaxUnroll>> carries_;  // of scans
  std::map<Ref, std::vector<llvm::Value*>> results_, positions_;
  llvm::AllocaInst* pieces_ = nullptr;  // counts flushes
  int64_t flush_every_ = 1;
  bool cascade_ = false;
  bool streamed_ = false;                   // a store went past the caches
  std::map<Ref, llvm::AllocaInst*> tiles_;  // while a square is in registers
  llvm::Value* tile_row_ = nullptr;         // the first row and column of the square
  llvm::Value* tile_column_ = nullptr;
  // A product in registers, in the current work item.
  struct ProductItem {
    loops::RegisterSum sum;
    llvm::Value *rows = nullptr, *columns = nullptr, *sums = nullptr;             // in scratch
    llvm::Value* pointers = nullptr;                                              // to the rows; in scratch, too
    llvm::Value *first_row = nullptr, *end_row = nullptr, *end_column = nullptr;  // the columns count from the block's
    llvm::Value* steps = nullptr;                                                 // of the last Inner range
    bool one_slice = false;
    llvm::AllocaInst* configuration = nullptr;            // of the registers for matrices
    llvm::Value *in_first = nullptr, *in_last = nullptr;  // the ranges around the slices are at their first, last value
  } product_;
  // The value of a Store or RowStore: its parts, and its form in memory.
  struct Stored {
    Ref value = 0;
    bool exact = false;  // a half value that keeps its bits
  };
  Stored source(const loops::Instr& i) const;
  llvm::Value* stored(const loops::Instr& i, int u, bool vector);
};

}  // namespace vesta::codegen
