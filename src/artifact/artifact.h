// The artifact: all that a run needs besides ATen, as plain data. It holds no graph, no Expr, no torch type and no
// address of this process. It is immutable once built, so any number of threads may run it.
#pragma once

#include <complex>
#include <variant>

#include "base/expr.h"
#include "base/memory_plan.h"
#include "base/type.h"
#include "machine/object.h"
#include "vesta/report.h"

namespace vesta::artifact {

using Size = ExprProgram;  // evaluated over the call's symbol values

struct TensorDesc {
  DType dtype = DType::F32;
  Device device;
  std::vector<Size> sizes;
  std::vector<Size> strides;
};

struct InputDesc {
  TensorDesc type;
  bool parameter = false;  // graph::InputKind::Parameter
  std::string name;
  int alignment = 1;  // in bytes; the input's address is a multiple of it
};

// Used instead of an input's index. kArgument: the dim-th integer argument. kReturned: an integer that a step returns
// (Extern::integers), unknown until that step has run.
constexpr int kArgument = -1, kReturned = -2;

struct SymbolSource {  // where the run reads symbol i
  int input = kArgument;
  int dim = 0;
  bool stride = false;
};

enum class Relation : uint8_t { Equal, NotEqual, Less, AtLeast };

struct Guard {
  Size left;
  Relation relation = Relation::Equal;
  Size right;
  std::string text;  // "4*s0 >= 16", with its source line, for messages
};

enum class Role : uint8_t { Input, Output, Arena, Returned, Prepacked };

struct Buffer {
  Role role = Role::Arena;
  TensorDesc type;
  int input = -1;
  int output = -1;
  int first_step = -1;
  int last_step = -1;
  Size bytes;  // Arena
};

struct View {
  int buffer = -1;  // -1: undefined
  DType dtype = DType::F32;
  std::vector<Size> sizes;
  std::vector<Size> strides;
  Size offset;         // elements
  bool whole = false;  // the whole buffer: same sizes and strides, offset 0
};

constexpr uint8_t kReads = 1, kWrites = 2;

// How a GPU runs a kernel: the threads of a block, and the work items of a block.
struct Grid {
  int block = 0;  // 0: a kernel of the CPU
  int items = 0;
  int shared = 0;  // bytes of shared memory beyond what the code declares
};

struct Launch {
  std::shared_ptr<const machine::Object> object;
  std::string name;
  std::vector<int>
      buffers;  // on a GPU, a buffer in the CPU's memory is passed by the value of its element, not by address
  std::vector<uint8_t> access;  // per buffer: kReads, kWrites; empty: every buffer is read and written
  std::vector<Size> offsets;    // bytes
  std::vector<Size> sizes;
  Size items;
  Size scratch;    // bytes per thread
  Size item_cost;  // nanoseconds
  bool serial = false;
  Grid grid;
};

// The arguments of an extern call, in schema order.
struct NoneArg {};
struct Arg {
  std::variant<NoneArg, View, std::vector<View>, bool, Size, std::vector<Size>, double, std::vector<double>,
               std::vector<bool>, std::complex<double>, std::string, DType, Device, MemoryFormat, Layout>
      value;
};

struct Extern {
  std::string op;  // "aten::mm" with overload
  std::vector<Arg> args;
  std::vector<int> results;  // buffer, or -1
  std::string source;
  std::vector<int> integers;  // per result, the symbol that it defines, or -1; empty: no result defines a symbol
};

// Runs another entry of the artifact with these views as inputs, and writes its results to these buffers.
struct Call {
  int entry = -1;            // index into Artifact::entries
  std::vector<View> inputs;  // one per input of the entry; the entry's facts and guards are checked when the step runs
  std::vector<int> results;  // buffer per output of the entry, or -1
  std::string source;
};

struct CopyBack {
  View from;
  int input = -1;
};

// Raises `message` if `flag`, a bool in the CPU's memory, is false.
struct Assert {
  int flag = -1;  // buffer
  std::string message;
};

using Step = std::variant<Launch, Extern, Call, Assert, CopyBack>;

enum class OutputKind : uint8_t { Fresh, Input, InputView, OutputView, Integer, None };

struct Output {
  OutputKind kind = OutputKind::Fresh;
  View view;  // Fresh
  int alias = -1;
  TensorDesc type;  // InputView, OutputView
  Size storage_offset;
  bool absolute_offset = false;
  ConjNegBits conj_neg;  // InputView, OutputView
  Size integer;
  bool hidden =
      false;  // Fresh: a base of views among the other outputs that is not returned itself. Hidden outputs come last.
};

// Facts about the identity of inputs that the program depends on.
struct InputFacts {
  std::vector<std::vector<int>> same;            // the inputs of each group are one tensor object
  std::vector<std::pair<int, int64_t>> offsets;  // storage_offset() of an input
  std::vector<std::pair<int, ConjNegBits>>
      conj_neg;  // inputs with conj or neg bits; all others have none; steps use their memory without applying the bits
};

using Key = std::vector<std::pair<std::string, std::string>>;  // fields by name

// Data for explain() and the store. A run reads none of it.
struct About {
  Key key;  // what the artifact was compiled from and for; only in the store's bytes
  std::vector<KernelInfo> kernels;
  std::vector<ExternReason> externs;
  int64_t ops_fused = 0;
  int64_t ops_extern = 0;
  int64_t packed_bytes = 0;
};

constexpr int kMostNested = 8;

struct Artifact {
  std::vector<InputDesc> inputs;
  std::vector<SymbolSource> symbols;
  std::vector<Guard> guards;
  InputFacts facts;
  std::vector<int> mutated;  // inputs that are written; each shares no memory with an input outside its group
  std::vector<Buffer> buffers;
  std::vector<Step> prepacked;
  std::vector<int> prepacked_parameters;  // inputs that the steps in `prepacked` read
  std::vector<Step> steps;
  std::vector<Output> outputs;
  // The device of the kernels and the arena, whose CUDA graphs record the program. A program with neither kernels nor
  // arena may still run on a GPU: its ATen calls are recorded there.
  Device device;
  bool is_static = false;  // there are no symbols: every Size is constant
  // Half of a training graph: a training loop makes the outputs in each step, probably at the same addresses. CUDA
  // graphs are recorded for these.
  bool outputs_recur = false;
  ArenaLayout arena;  // exact if static; otherwise for the hints of the sizes
  // Further entries, run by the artifact's loader (the second half of a program) or by its Call steps (a region that it
  // repeats). Each entry has symbols of its own. An entry that a step calls writes no input, takes no integers, makes
  // no prepacked constants and returns only new tensors. It may call entries of its own, at most kMostNested deep.
  std::vector<Artifact> entries;
  About about;
};

std::string print(const Artifact& a);

}  // namespace vesta::artifact
