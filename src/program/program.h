// A saved program: one function's compiled variants, its weights and the structure of its calls, as plain data. It
// runs without Python, a tracer and a code generator: what the interpreter's guards say of arguments are checks here,
// and the results are made by a short list of instructions.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <string>
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
// Floats are equal if their bits are, except that every NaN equals every other one.
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

// Where a value is found among the arguments: a parameter, an item of a list or tuple, a value of a dict.
struct Place {
  int parent = -1;  // an earlier place, or -1: the parameter number `index`
  int index = 0;    // of the item, where there is no key
  std::optional<Scalar> key;
};

// A fact about the value at a place that the variant was compiled for.
struct Check {
  enum class What : uint8_t { Kind, Equals, Length, Keys, Present, Absent, Same, Different };
  What what = What::Present;
  int place = -1;
  Kind kind = Kind::None;    // Kind
  Scalar value;              // Equals
  int64_t number = 0;        // Length; Same and Different: the other place, of the same tensor object or not
  std::vector<Scalar> keys;  // Keys, in order
};

// An input of the graph: a tensor among the arguments, a weight, or a number, of which a tensor is made.
struct Input {
  int place = -1;
  int weight = -1;
  bool is_number = false;
};

// One value of the results. Parts are earlier ones.
struct Make {
  enum class What : uint8_t { Constant, Argument, Weight, Output, List, Tuple, Dict };
  What what = What::Constant;
  Scalar value;            // Constant
  int index = 0;           // the place, weight or output of the graph
  std::vector<int> parts;  // Dict: key, value, key, value ...
};

// What the artifact was compiled from and for, to compile it again where it cannot run.
struct Origin {
  std::string graph;  // the traced graph's text
  bool inference = true;
  std::string numerics;
  int64_t packed_weights = -1;
  bool kernels = true;  // Options::kernels
  Target target;
  std::string torch;  // "2.13"
  // Options::cuda_graphs and those beside it, which runs of the artifact read too.
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

// A tensor that every variant may read. Several may lie in one storage.
struct Weight {
  std::string name;  // as in the module's state_dict()
  DType dtype = DType::F32;
  Device device;  // weights of one storage are on one
  std::vector<int64_t> sizes, strides;
  int storage = 0;
  int64_t offset = 0;  // elements
};

struct Storage {
  int64_t bytes = 0;
  int64_t at = -1;  // in the file's weights; -1: they are elsewhere
  uint64_t digest = 0;
};

struct Program {
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<Weight> weights;
  std::vector<Storage> storages;
  std::vector<Variant> variants;
  // Values of the module, of globals and flags that the variants were compiled for: "self.training == False". Nothing
  // checks them any more.
  std::vector<std::string> assumed;
};

// Bytes that a storage must have for this weight.
int64_t reach(const Weight& w);

}  // namespace vesta::program
