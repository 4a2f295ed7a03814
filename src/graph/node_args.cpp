#include "base/check.h"
#include "graph/graph.h"

namespace vesta::graph {
namespace {

template <class T>
const T& as(const NodeArgs& args, std::string_view name, std::string_view wanted) {
  const T* v = std::get_if<T>(&args.get(name));
  VESTA_CHECK(v, "argument {} of {} is not {}", name, args.schema().name, wanted);
  return *v;
}

}  // namespace

const Arg& NodeArgs::get(std::string_view name) const {
  const int i = schema_->index_of(name);
  VESTA_CHECK(i >= 0, "{} has no argument {}", schema_->name, name);
  VESTA_CHECK(static_cast<size_t>(i) < args_.size(), "{} was given no argument {}", schema_->name, name);
  return args_[i];
}

bool NodeArgs::has(std::string_view name) const {
  const int i = schema_->index_of(name);
  return i >= 0 && static_cast<size_t>(i) < args_.size() && !is_none(args_[i]);
}

const TensorType& NodeArgs::tensor(size_t i) const {
  VESTA_CHECK(i < args_.size(), "{} was given no argument {}", schema_->name, i);
  Value* const* v = std::get_if<Value*>(&args_[i]);
  VESTA_CHECK(v, "argument {} of {} is not a tensor", i, schema_->name);
  return (*v)->type;
}

const TensorType& NodeArgs::tensor(std::string_view name) const { return as<Value*>(*this, name, "a tensor")->type; }

Expr NodeArgs::integer(std::string_view name) const {
  const Arg& a = get(name);
  if (const bool* b = std::get_if<bool>(&a)) return *b ? 1 : 0;
  return as<Expr>(*this, name, "an integer");
}

const IntList& NodeArgs::integers(std::string_view name) const {
  return as<IntList>(*this, name, "a list of integers");
}

double NodeArgs::number(std::string_view name) const {
  const Arg& a = get(name);
  if (const auto* d = std::get_if<double>(&a)) return *d;
  if (const auto* b = std::get_if<bool>(&a)) return *b ? 1 : 0;
  if (const auto* e = std::get_if<Expr>(&a)) {
    if (!e->is_constant()) VESTA_UNSUPPORTED("argument {} of {} is a symbolic number", name, schema_->name);
    return static_cast<double>(e->constant());
  }
  VESTA_CHECK(false, "argument {} of {} is not a real number", name, schema_->name);
}

bool NodeArgs::boolean(std::string_view name) const { return as<bool>(*this, name, "a bool"); }

DType NodeArgs::dtype(std::string_view name, DType otherwise) const {
  return is_none(get(name)) ? otherwise : as<DType>(*this, name, "a dtype");
}

const std::string& NodeArgs::string(std::string_view name) const { return as<std::string>(*this, name, "a string"); }

}  // namespace vesta::graph
