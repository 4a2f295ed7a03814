// The artifact: what runs, as plain data. No graph, no Expr, no torch type, no address of this process; a run needs
// this and ATen. Immutable after it is built: any number of threads run one artifact.
#pragma once

#include <complex>
#include <memory>
#include <string>
#include <variant>
#include <vector>

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
  int alignment = 1;  // bytes: its address must be a multiple
};

// In the place of an input: the dim-th integer argument; an integer that a step returns (Extern::integers), unknown
// until that step has run.
constexpr int kArgument = -1, kReturned = -2;

struct SymbolSource {  // symbol i of the run is read here
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

enum class Role : uint8_t { Input, Output, Arena, Returned, Derived };

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
  bool whole = false;  // the buffer itself: same sizes, strides, offset 0
};

constexpr uint8_t kReads = 1, kWrites = 2;

// How a GPU runs a kernel: blocks of so many threads, each of them for so many items.
struct Grid {
  int block = 0;  // 0: a kernel of the CPU
  int items = 0;
  int shared = 0;  // bytes of shared memory beside what its code says
};

struct Launch {
  std::shared_ptr<const machine::Object> object;
  std::string name;
  std::vector<int> buffers;     // on a GPU, the element of one in the CPU's memory is the argument, not its address
  std::vector<uint8_t> access;  // of each buffer: kReads, kWrites; empty: every buffer is read and written
  std::vector<Size> offsets;    // bytes
  std::vector<Size> sizes;
  Size items;
  Size scratch;    // bytes a thread
  Size item_cost;  // nanoseconds
  bool serial = false;
  Grid grid;
};

// Argument data of an extern call, in schema order.
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
  std::vector<int> integers;  // of each result, the symbol that it defines, or -1; empty: none defines one
};

// Runs a further entry point of the artifact. Its inputs are these views, its results go to these buffers.
struct Call {
  int entry = -1;            // index into Artifact::entries
  std::vector<View> inputs;  // one per input of the entry; their facts and guards are checked when the step runs
  std::vector<int> results;  // buffer per output of the entry, or -1
  std::string source;
};

struct CopyBack {
  View from;
  int input = -1;
};

// Raises `message` if the bool in the CPU's memory of `flag` is false.
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
  Pending pending;  // InputView, OutputView
  Size integer;
  bool hidden = false;  // Fresh, for views of it among the others; not returned. Comes last.
};

// Facts about the identity of inputs that the program depends on.
struct InputFacts {
  std::vector<std::vector<int>> same;            // each group is one tensor object
  std::vector<std::pair<int, int64_t>> offsets;  // storage_offset() of an input
  std::vector<std::pair<int, Pending>> pending;  // on these inputs, and on no other; steps see their memory as it is
};

using Key = std::vector<std::pair<std::string, std::string>>;  // fields by name

// For explain() and the store: a run reads nothing of it.
struct About {
  Key key;  // what it was compiled from and for; in the store's bytes alone
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
  std::vector<int> mutated;  // inputs written; each shares no memory with an input outside its group
  std::vector<Buffer> buffers;
  std::vector<Step> derived;
  std::vector<int> derived_parameters;  // inputs the derived steps read
  std::vector<Step> steps;
  std::vector<Output> outputs;
  // Where its kernels run and its arena lies, and whose CUDA graphs record it. A program that has neither may be one of
  // a GPU too: its calls into ATen are recorded there.
  Device device;
  bool is_static = false;  // no symbols: every Size is constant
  ArenaLayout arena;       // static: exact; otherwise under the hints
  // Further entry points: of whoever loads the artifact (the second half of a program), or of its Call steps (a region
  // that it repeats). Symbols of an entry are its own. What a step calls writes no input, takes no integers, derives no
  // weights and returns new tensors alone; an entry calls entries of its own, at most kMostNested deep.
  std::vector<Artifact> entries;
  About about;
};

std::string print(const Artifact& a);

}  // namespace vesta::artifact
