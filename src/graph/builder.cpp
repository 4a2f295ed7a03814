#include <algorithm>

#include "base/check.h"
#include "graph/graph.h"

namespace vesta::graph {
namespace {

// ATen's binding accepts a lone number for a list of fixed size, and an integer for a float.
Arg fitted(const SchemaArg& schema, Arg arg) {
  const Expr* e = std::get_if<Expr>(&arg);
  if (!e) return arg;
  if (schema.type == ArgType::IntList) return IntList(static_cast<size_t>(std::max(schema.list_size, 1)), *e);
  if (schema.type == ArgType::Float && e->is_constant()) return static_cast<double>(e->constant());
  return arg;
}

}  // namespace

Node* Builder::node(std::string_view name, std::vector<Arg> args, std::vector<std::pair<std::string_view, Arg>> named) {
  const Op& op = get_op(name);
  const std::vector<SchemaArg>& schema = op.schema.args;
  VESTA_CHECK(args.size() <= schema.size(), "{} takes {} arguments, not {}", name, schema.size(), args.size());
  std::vector<bool> given(schema.size());
  std::fill_n(given.begin(), args.size(), true);
  args.resize(schema.size());
  for (auto& [key, value] : named) {
    const int i = op.schema.index_of(key);
    VESTA_CHECK(i >= 0, "{} has no argument {}", name, key);
    VESTA_CHECK(!given[i], "argument {} of {} is given twice", key, name);
    args[i] = std::move(value);
    given[i] = true;
  }
  for (size_t i = 0; i < schema.size(); ++i) {
    if (given[i]) {
      args[i] = fitted(schema[i], std::move(args[i]));
    } else if (schema[i].has_default) {
      args[i] = schema[i].default_value;
    } else {
      VESTA_CHECK(schema[i].optional || schema[i].type == ArgType::OptionalTensor, "{} needs its argument {}", name,
                  schema[i].name);
    }
  }
  GraphGuards guards(*graph_);
  guards.source = source.empty() ? op.name : source;
  std::vector<TensorType> types = infer_types(op, args, guards);
  Node* n = graph_->add_node(op, std::move(args), std::move(types), before_);
  n->source = source;
  return n;
}

}  // namespace vesta::graph
