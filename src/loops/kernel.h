// A kernel: one fused loop nest that knows no graph, a Dag (dag.h) with a device's schedule. src/schedule builds
// kernels and src/codegen emits them without choices of its own.
//
// Shape of the computation (all loops are over `ranges`):
//
//   for item in [begin, end):                  // the work items: all Parallel ranges, flattened, the last one fastest
//     decode item into the Parallel variables  // if there is a `block`, the vector range is cut into blocks of that
//     many for stage in stages:
//       stage.loop ?  for (Inner ranges, in order, last fastest) run stage.body  // over the whole inner space
//                  :  run stage.body once
//
// - `vector` names the one range whose variable advances by a vector of lanes. If it is an Inner range, lanes run along
//   the row and reductions over it end in a horizontal combine. If it is a Parallel range (it must then have a `block`
//   and be the last Parallel one), each work item is one block of columns and the stages' loops step through the
//   Inner ranges with whole vectors of columns ("column program"); values of non-loop stages are then vectors too. With
//   no Inner ranges a kernel is purely pointwise: one non-loop stage, the vector range Parallel and blocked.
// - An instruction's value may be used later in its own stage. Across stages only Result, RowLoad and values of
//   non-loop stages may be used. Values that depend on no Inner variable may be computed once (the generator hoists).
// - Accumulate adds the current element to an accumulator over *all* Inner ranges; Result reads it in a later stage.
//   Sums accumulate in blocks and combine pairwise (docs/numerics.md); the order depends on sizes alone.
// - RowStore / RowLoad keep a value of each inner element from one stage to a later one in a scratch row of the thread.
// - Out-of-range lanes are masked: they load nothing, store nothing and do not enter a reduction.
//
// Kernels are canonical: equal kernels print equal text, and that text is their identity (compiled once).
#pragma once

#include <array>

#include "base/expr.h"
#include "base/prim.h"
#include "base/type.h"

namespace vesta::loops {

enum class RangeKind : uint8_t { Parallel, Inner };

struct Range {
  Expr var;     // a loop symbol of the kernel's context
  Expr extent;  // constant, or over the kernel's size symbols
  RangeKind kind = RangeKind::Parallel;
};

enum class InstrKind : uint8_t {
  Constant,  // imm (integers, Bool) or fimm (floats)
  Index,     // the value of `index` as a scalar of type dtype (I64, or any integer/float type)
  Load,      // buffer[index]; where operand 0 (a Bool mask) is given, lanes with false are not read and yield 0
  Compute,   // prim(in...)
  Cast,      // from in[0]'s dtype to dtype
  Indirect,  // binds the symbol `index` (an indirect symbol) to the integer in[0], for use in later index expressions;
             // where a Bool in[1] is given, it asserts that. Kernels for a CPU have no assertion: their indices are
             // checked before they run
  Store,     // buffer[index] = in[0]; mask in[1] if given
  StoreAdd,  // buffer[index] += in[0], once for each point of all ranges; correct when lanes, threads and work items
             // collide (atomic, in no order, or serial: `serial` below)
  Accumulate,  // reduce(in[0]); ArgMax/ArgMin: in[0] value, in[1] its I64 position; mask: lanes out of range only
  Result,      // of Accumulate in[0]; imm 0: the value, imm 1: the position of ArgMax/ArgMin
  Scan,        // running combination of in[0] along the single Inner range, inclusive (no ArgMax)
  RowStore,    // scratch row `slot` at the current inner element = in[0]
  RowLoad,     // the value of the scratch row there
};

// Whether `index` is an expression to be computed.
constexpr bool has_index(InstrKind k) {
  return k == InstrKind::Index || k == InstrKind::Load || k == InstrKind::Store || k == InstrKind::StoreAdd;
}

// Whether GPU threads can add elements of this type atomically.
constexpr bool adds_atomically(DType t) {
  return t == DType::F32 || t == DType::F64 || t == DType::I32 || t == DType::I64;
}

// Whether the instruction writes a buffer.
constexpr bool writes(InstrKind k) { return k == InstrKind::Store || k == InstrKind::StoreAdd; }

using Ref = uint32_t;  // index into Kernel::instrs
inline constexpr Ref kNoRef = UINT32_MAX;

struct Instr {
  InstrKind kind = InstrKind::Constant;
  DType dtype = DType::F32;  // of the value; for Store, of the buffer's element
  Prim prim = Prim::Add;
  ReduceOp reduce = ReduceOp::Sum;
  std::array<Ref, 3> in = {kNoRef, kNoRef, kNoRef};
  int64_t imm = 0;
  double fimm = 0;
  int buffer = -1;  // Load, Store, StoreAdd: index into Kernel::buffers
  int slot = -1;    // RowStore, RowLoad
  Expr index;       // Load, Store: offset in elements from the buffer's pointer; Index: the value
};

struct Stage {
  bool loop = false;
  std::vector<Ref> body;  // in order
};

struct KernelBuffer {
  DType dtype = DType::F32;
  bool written = false;
  // True when no other written buffer of this kernel may share memory with it: the generator may reorder accesses.
  bool noalias = true;
  // The buffer is only written, begins at a multiple of 64 bytes, and leaves the caches before it is read. Whole
  // vectors may be stored past the caches.
  bool stream = false;
  // One element that is only read and is passed as the kernel's argument itself instead of a pointer. For kernels with
  // threads; the interpreter gets a pointer to it.
  bool value = false;
  // The pointer is a multiple of this many bytes. 1: only of the element's size.
  int64_t alignment = 1;
  // Nothing writes the buffer while a program runs: kernels may read it before the kernels before them have ended.
  bool constant = false;
};

// Loads of a pointwise program that run along another parallel variable `row` than the lanes. A square of `rows` x
// `columns` elements is read along `row`, transposed, and kept while its elements are used. `row` is the variable next
// to the lanes, so that neighbouring work items are neighbours along it. On a GPU the lanes run along the last Parallel
// range, a block does one square, and the squares at the edges may be incomplete.
//
// On a GPU a tile may also have all rows, an odd number of them, if its loads are adjacent in memory: column after
// column of `rows` elements. Then the block reads the tile as it lies in memory, and `pitch` is `rows`. As it is odd,
// the columns begin in different banks of shared memory.
struct Tile {
  Expr row;
  int64_t rows = 0;  // 0: no tile
  int64_t columns = 0;
  int64_t pitch = 0;  // elements from one row of the square to the next; on a GPU from one column, in shared memory
  std::vector<Ref> loads;

  bool lies_together() const { return rows > 0 && pitch == rows; }
};

// Memory that is prefetched into the caches: what these loads read `rows` iterations later along the variable `row`. In
// a row program the last loop prefetches, in a tiled program every row of a square.
struct Ahead {
  Expr row;
  int64_t rows = 0;
  std::vector<Ref> loads;  // none: nothing is fetched
};

enum class OnlineKind : uint8_t {
  // The sum of exp(x - m), where m is the maximum. It is rescaled where the maximum grows (Milakov and Gimelshein,
  // "Online normalizer calculation for softmax", 2018).
  Exp,
  FiniteExp,  // the same, but of exp(x) where the maximum is infinite
  // The sum of the squares of x - m, where m is the mean. A thread has it for a few elements relative to their own
  // mean,
  // and combines such sums (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
  // variances", 1979).
  Squares,
};

// A sum that needs no pass of its own, although its terms depend on an earlier reduction of the same x over the row:
// the loop of that reduction computes the sum too. For kernels with threads; the interpreter ignores it.
struct Online {
  Ref first = kNoRef;  // Accumulate instructions: of the maximum, or of the sum of x
  Ref sum = kNoRef;
  OnlineKind kind = OnlineKind::Exp;
  bool operator==(const Online&) const = default;
};

// How a GPU's threads share the work. It replaces vector, lanes, block and ahead; the interpreter ignores it.
//
// A thread computes `each` neighbouring elements: of the last Inner range in loop stages, of the last Parallel range
// where there is no loop or where teams work `across`. It loads and stores neighbours in memory at once.
//
// A block of `block` threads serves teams of `team` threads each. A team does one work item (`each` of them where there
// is no loop or where it works across). In a loop stage the threads of a team take `each` inner elements in turn, round
// after round. Accumulators are combined over the team before the next stage. Every thread has every value of the other
// stages, and one thread stores it. A scan combines the elements of a round over the team and adds the rounds before.
// Rows are kept in registers, with `held` rounds unrolled, or in the block's shared memory (`shared`), for rows that a
// whole block computes.
//
// `parts` neighbouring blocks share each work item (a cluster: their multiprocessors are neighbours and read each
// other's shared memory). Their teams are one team of all their threads. A block keeps the elements of its own threads.
//
// The threads of a team are neighbours. If they work `across`, the first threads of the teams are neighbours, then
// their second threads, and so on: for rows whose neighbours are adjacent in memory. A value that is the same for all
// rows of a thread is computed once. In a kernel with a scan, a thread's `each` elements are of the row all the same.
struct Threads {
  int64_t block = 0;  // 0: a kernel for a CPU; a multiple of 32
  int64_t team = 1;   // a power of two up to 32, or `block`; with `across`, any divisor of `block`
  int64_t held = 0;   // 0: no rows in registers, and loops of any length
  int64_t each = 1;   // a power of two that divides its range's extent
  bool across = false;
  bool shared = false;
  int64_t parts = 1;  // a power of two
};

// The tiles of a matrix product that a GPU's tensor cores compute (product.h). A block computes `rows` by `columns`
// elements of each sum. It reads `stages` slices of the operands ahead, each of kProductSliceBytes of every row.
struct ProductTile {
  int64_t rows = 0;  // 0: no product; otherwise 64, 128 or 256
  int64_t columns = 0;
  int64_t stages = 0;
  int64_t parts = 1;  // neighbouring blocks that share the inner range of a tile and add up their sums
};
inline constexpr int64_t kProductSliceBytes = 128;

// The tiles of a matrix product whose sums a CPU keeps in registers (register_product.h). A work item computes
// `row_block` rows by Kernel::block columns of the result, a tile `rows` by `columns` of these. A slice of `slice`
// inner elements is packed and multiplied for all tiles of a work item before the next one.
struct RegisterTile {
  int64_t rows = 0;  // 0: no product
  int64_t columns = 0;
  Expr row_block, slice;  // constant, or over the kernel's size symbols; constant where operands are packed
  // The operands are BF16, and a step adds the products of two neighbouring inner elements to a sum, as the instruction
  // vdpbf16ps does. The last element of an odd inner space is a step of its own.
  bool pairs = false;
  // Steps of an instruction that multiplies matrices, as tdpbf16ps does: 16 rows of so many pairs by so many pairs of
  // 16 columns. The sums are in registers for matrices. 0: they are in vectors.
  int64_t depth = 0;
  // Whether the operand of the rows, or that of the columns, is first copied in the order in which tiles read it.
  bool packs_rows = false, packs_columns = false;

  int64_t elements_of_step() const { return pairs ? 2 : 1; }
};

struct Kernel {
  std::shared_ptr<ExprContext> context;
  std::vector<Expr> sizes;            // the size symbols the kernel reads, in argument order
  std::vector<Range> ranges;          // Parallel ranges first
  int vector = -1;                    // index into ranges; -1: scalar code
  int64_t lanes = 1;                  // elements of a vector; a power of two that divides `block`
  Expr block = 0;                     // elements of the vector range in a work item (see above); 0: there is no block
  std::vector<KernelBuffer> buffers;  // in order of first use
  std::vector<Instr> instrs;
  std::vector<Stage> stages;
  std::vector<DType> row_slots;  // element type of each scratch row; a row holds the product of the Inner extents
                                 // (times `block` in a column program)
  bool serial = false;           // must run on one thread, items in order
  Tile tile;
  Ahead ahead;
  Threads threads;
  ProductTile product;
  RegisterTile registers;
  std::vector<Online> online;
};

// Number of work items: the `end` of a whole run. With RegisterTile, the range before the vector counts its blocks.
Expr work_items(const Kernel& k);
// The count of work items, or squares of a tile, that a kernel with threads is launched for, and the count in one
// block.
Expr launched_items(const Kernel& k);
int64_t items_of_block(const Kernel& k);
// Bytes of shared memory that a block needs for rows that it keeps, for what it tells the blocks it shares rows with,
// or for slices of a matrix product.
int64_t shared_bytes(const Kernel& k);
// Whether a kernel combines elements along a row, each with those before it.
bool has_scan(const Kernel& k);
// The error function in an instruction that adds it to 1, as in GELU; kNoRef: the instruction does something else.
Ref erf_beside_one(const Kernel& k, const Instr& i);
// Where the row of a slot begins in shared memory.
int64_t shared_offset(const Kernel& k, int slot);
// Bytes of scratch that one thread needs: for the rows, or for a product's packed operands and sums.
Expr scratch_bytes(const Kernel& k);

// Elements of one scratch row, and where the row of a slot begins (bytes; rows are padded so that a whole vector past
// the last element stays inside).
Expr row_elements(const Kernel& k);
Expr row_offset(const Kernel& k, int slot);

// The type of an instruction's value, and the type in which its primitive computes (that of its operands).
DType value_type(std::span<const Instr> instrs, Ref r);
DType compute_type(std::span<const Instr> instrs, const Instr& instr);
inline DType value_type(const Kernel& k, Ref r) { return value_type(k.instrs, r); }
inline DType compute_type(const Kernel& k, const Instr& instr) { return compute_type(k.instrs, instr); }

std::string print(const Kernel& k);  // canonical text (symbols renamed by position)
std::unique_ptr<Kernel> parse_kernel(std::string_view text);
void verify(const Kernel& k);  // InternalError naming the broken rule

}  // namespace vesta::loops
