#include "trace/operators/literals.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "graph/rules/promotion.h"
#include "trace/recorder.h"

namespace vesta::trace {
namespace {

using graph::Arg;

// The operator `from` with a number as argument `number` equals the operator `to` with the same arguments.
struct Overload {
  std::string_view from;
  size_t number;
  std::string_view to;
};
constexpr Overload kOverloads[] = {
    {"aten::div.Tensor_mode", 1, "aten::div.Scalar_mode"},
    {"aten::pow.Tensor_Tensor", 1, "aten::pow.Tensor_Scalar"},
    {"aten::pow.Tensor_Tensor", 0, "aten::pow.Scalar"},
    {"aten::remainder.Tensor", 0, "aten::remainder.Scalar_Tensor"},
    {"aten::floor_divide", 1, "aten::floor_divide.Scalar"},
    {"aten::bitwise_left_shift.Tensor", 1, "aten::bitwise_left_shift.Tensor_Scalar"},
    {"aten::bitwise_right_shift.Tensor", 1, "aten::bitwise_right_shift.Tensor_Scalar"},
    {"aten::xlogy.Tensor", 1, "aten::xlogy.Scalar_Other"},
    {"aten::where.self", 2, "aten::where.ScalarOther"},
    {"aten::where.self", 1, "aten::where.ScalarSelf"},
    {"aten::clamp_min.Tensor", 1, "aten::clamp_min"},
    {"aten::clamp_max.Tensor", 1, "aten::clamp_max"},
};

// The operator that takes a number in place of the tensor `number`, with a row. nullptr: there is none. Without a row
// of its own above, the overload Tensor of an operator, its last tensor a number, equals the overload Scalar.
const graph::Op* overload_for(const graph::Schema& schema, size_t number) {
  const auto is_tensor = [](const graph::SchemaArg& a) { return a.type == graph::ArgType::Tensor; };
  const auto* own =
      std::ranges::find_if(kOverloads, [&](const Overload& o) { return o.number == number && o.from == schema.name; });
  std::string to;
  if (own != std::end(kOverloads))
    to = own->to;
  else if (schema.name.ends_with(".Tensor") && number > 0 &&
           std::none_of(schema.args.begin() + static_cast<std::ptrdiff_t>(number) + 1, schema.args.end(), is_tensor))
    to = schema.name.substr(0, schema.name.rfind('.')) + ".Scalar";
  const graph::Op* op = graph::find_op(to);
  return op && op->row ? op : nullptr;
}

}  // namespace

void place_numbers(Recorder& r, const graph::Op*& op, std::vector<Arg>& args) {
  const auto& schema = op->schema;
  std::vector<size_t> numbers;
  bool has_tensor = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const auto type = schema.args[i].type;
    if (type != graph::ArgType::Tensor && type != graph::ArgType::OptionalTensor) continue;
    if (graph::is_number(args[i])) numbers.push_back(i);
    has_tensor |= std::holds_alternative<graph::Value*>(args[i]);
  }
  if (numbers.empty()) return;
  if (numbers.size() == 1 && has_tensor) {
    if (schema.name == "aten::mul.Tensor" && numbers[0] == 0) {
      std::swap(args[0], args[1]);
      numbers[0] = 1;
    }
    if (const graph::Op* to = overload_for(schema, numbers[0])) {
      op = to;
      return;
    }
  }
  // A 0-d tensor of the promoted type promotes as the number does.
  std::optional<DType> promoted;
  if (has_tensor && op->row && op->row->promote != graph::Promote::Keep) {
    graph::ResultType type;
    for (size_t i = 0; i < args.size(); ++i) {
      const auto kind = schema.args[i].type;
      if (kind != graph::ArgType::Tensor && kind != graph::ArgType::OptionalTensor) continue;
      if (op->row->promote == graph::Promote::Select && i == 0) continue;
      if (const auto* v = std::get_if<graph::Value*>(&args[i]))
        type.add((*v)->type);
      else if (graph::is_number(args[i]))
        type.add_number(args[i]);
    }
    promoted = type.get();
  }
  for (size_t i : numbers) {
    DType type = promoted.value_or(graph::number_type(args[i]));
    if (!promoted && std::holds_alternative<double>(args[i])) type = DType::F64;
    args[i] = r.emit("aten::full", {graph::IntList{}, args[i]}, {{"dtype", type}});
  }
}

}  // namespace vesta::trace
