// A saved program, as plain data: one function's compiled variants, its weights, and the structure of its calls.
// Running it needs no Python, tracer or code generator. The guards on arguments are checks here, and a short list of
// instructions makes the results.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "artifact/artifact.h"
#include "base/target.h"
#include "base/type.h"

namespace vesta::program {

// A dtype, device, layout or memory format: "torch.float16", "cpu".
struct Name {
  std::string text;
  bool operator==(const Name&) const = default;
};
// None, or a value that Python compares by equality.
using Scalar = std::variant<std::monostate, bool, int64_t, double, std::complex<double>, std::string, Name>;
// Floats are equal if their bits are; all NaNs are equal.
// A function of several, for std::visit.
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

bool same(const Scalar& a, const Scalar& b);
std::string to_string(const Scalar& s);  // as Python writes it

enum class Kind : uint8_t { None, Bool, Int, Float, Complex, String, Name, Tensor, List, Tuple, Dict };
Kind kind_of(const Scalar& s);
std::string_view name(Kind k);  // "a tensor", "a list"

// One parameter of the function.
struct Parameter {
  enum class How : uint8_t { PositionalOnly, Plain, Positionals, KeywordOnly, Keywords };  // f(a, /, b, *c, d, **e)
  std::string name;
  How how = How::Plain;
  std::optional<Scalar> fallback;  // its default value
};

// The path to a value among the arguments: a parameter, an item of a list or tuple, or a value of a dict.
struct Place {
  int parent = -1;  // index of an earlier place; -1: `index` is the number of a parameter
  int index = 0;    // of the item, unless there is a key
  std::optional<Scalar> key;
};

// A fact about the value at a place that the variant was compiled for.
struct Check {
  enum class What : uint8_t { Kind, Equals, Length, Keys, Present, Absent, Same, Different };
  What what = What::Present;
  int place = -1;
  Kind kind = Kind::None;  // Kind
  Scalar value;            // Equals
  int64_t number = 0;  // Length; Same and Different: the other place, which has the same tensor object or another one
  std::vector<Scalar> keys;  // Keys, in order
};

// An input of the graph: a tensor among the arguments, a weight, or a number that is made a tensor.
struct Input {
  int place = -1;
  int weight = -1;
  bool is_number = false;
};

// One value that the results consist of. `parts` refers to earlier values.
struct Make {
  enum class What : uint8_t { Constant, Argument, Weight, Output, List, Tuple, Dict };
  What what = What::Constant;
  Scalar value;            // Constant
  int index = 0;           // of the place, weight or output of the graph
  std::vector<int> parts;  // Dict: key, value, key, value ...
};

// The source of an artifact and its target. Where the artifact cannot run, it is compiled again from this.
struct Origin {
  std::string graph;  // the traced graph's text
  bool inference = true;
  std::string numerics;
  int64_t packed_weights = -1;
  bool kernels = true;  // Options::kernels
  Target target;
  std::string torch;  // "2.13"
  // Options::cuda_graphs and the options beside it. Runs of the artifact read these, too.
  bool cuda_graphs = true;
  int64_t copied_inputs = int64_t{1} << 20, cuda_graph_memory = -1;
  bool deterministic = false;  // torch.use_deterministic_algorithms
};

struct Variant {
  std::vector<Place> places;
  std::vector<Check> checks;
  std::vector<Input> inputs;
  std::vector<int> integers;  // places of symbolic integers
  std::vector<Make> makes;    // the last one is the result
  artifact::Artifact artifact;
  Origin origin;
};

// A tensor that every variant may read. Several weights may share a storage.
struct Weight {
  std::string name;  // as in the module's state_dict()
  DType dtype = DType::F32;
  Device device;  // weights that share a storage are on one device
  std::vector<int64_t> sizes, strides;
  int storage = 0;
  int64_t offset = 0;  // elements
};

struct Storage {
  int64_t bytes = 0;
  int64_t at = -1;  // position in the file's weights; -1: the storage is elsewhere
  uint64_t digest = 0;
};

struct Program {
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<Weight> weights;
  std::vector<Storage> storages;
  std::vector<Variant> variants;
  // Values of the module, of globals and of flags that the variants were compiled for: "self.training == False". A
  // loaded program does not check them.
  std::vector<std::string> assumed;
};

// The bytes that a storage must have for this weight.
int64_t reach(const Weight& w);

// As bytes (FlatBuffers, program.fbs) and back. No byte is used before it is checked.
// Equal programs give equal bytes.
std::string encode(const Program& program);

// Checks every offset, type and number before any is used. Throws InternalError if the bytes are damaged, and UserError
// if their artifacts are of another version.
Program decode(std::string_view bytes);

// Throws InternalError if an index is out of range. The reader of the file checks the extents of storages against it.
void verify(const Program& program);

// For people. No code parses these texts.
// A place as Python writes it: "batch['mask']", "xs[0]".
std::string text(const Program& p, const Variant& v, int place);
// A check as a condition: "len(xs) == 2".
std::string text(const Program& p, const Variant& v, const Check& c);
// "f(x, mask=None, *, scale=1.0)".
std::string signature(const Program& p);
// The parameters, variants, weights, and the assumptions that nothing checks.
std::string print(const Program& p);

}  // namespace vesta::program
