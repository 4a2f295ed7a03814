// Reads ATen schemas without torch: "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor".
#pragma once

#include "graph/arg.h"

namespace vesta::graph {

enum class ArgType : uint8_t {
  Tensor,
  OptionalTensor,
  TensorList,
  OptionalTensorList,
  Int,
  IntList,
  Float,
  FloatList,
  Bool,
  BoolList,
  Scalar,
  ScalarList,
  String,
  DType,
  Layout,
  Device,
  MemoryFormat,
  Generator,
  Storage,
  Other,
};

struct SchemaType {
  ArgType type = ArgType::Other;
  bool optional = false;  // T?
  int list_size = 0;      // int[2]: a lone number stands for a list of that many
  bool aliased = false;   // (a): a view of, or written together with (a!): mutated
  bool mutated = false;
  std::string alias_set;  // "a" in Tensor(a!); of a return, empty: a fresh tensor
};

struct SchemaArg : SchemaType {
  std::string name;
  bool keyword_only = false;
  bool has_default = false;
  Arg default_value;  // None where the default is None
};

struct SchemaReturn : SchemaType {
  std::string name;
};

struct Schema {
  std::string name;  // "aten::add.Tensor": namespace, operator, overload (no dot without one)
  std::vector<SchemaArg> args;
  std::vector<SchemaReturn> returns;
  int index_of(std::string_view arg_name) const;  // -1 if absent
  bool mutates() const;
  bool is_view() const;  // a return aliases an argument that is not mutated
};

// Throws UserError with the position of the text that it cannot read.
Schema parse_schema(std::string_view text);

}  // namespace vesta::graph
