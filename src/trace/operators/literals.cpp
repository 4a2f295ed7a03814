#include "trace/operators/literals.h"

#include "base/check.h"
#include "graph/rules/promotion.h"
#include "trace/recorder.h"

namespace vesta::trace {
namespace {

using graph::Arg;

// The operator `from` with a number as argument `number` equals the operator `to` with arguments in the given order
// (positions in `from`).
struct Overload {
  const char* from;
  size_t number;
  const char* to;
  std::vector<size_t> order;
};

const std::vector<Overload>& overloads() {
  static const std::vector<Overload> table = [] {
    std::vector<Overload> t = {
        {"aten::add.Tensor", 1, "aten::add.Scalar", {0, 1, 2}},
        {"aten::sub.Tensor", 1, "aten::sub.Scalar", {0, 1, 2}},
        {"aten::mul.Tensor", 1, "aten::mul.Scalar", {0, 1}},
        {"aten::mul.Tensor", 0, "aten::mul.Scalar", {1, 0}},
        {"aten::div.Tensor", 1, "aten::div.Scalar", {0, 1}},
        {"aten::div.Tensor_mode", 1, "aten::div.Scalar_mode", {0, 1, 2}},
        {"aten::rsub.Tensor", 1, "aten::rsub.Scalar", {0, 1, 2}},
        {"aten::pow.Tensor_Tensor", 1, "aten::pow.Tensor_Scalar", {0, 1}},
        {"aten::pow.Tensor_Tensor", 0, "aten::pow.Scalar", {0, 1}},
        {"aten::remainder.Tensor", 1, "aten::remainder.Scalar", {0, 1}},
        {"aten::remainder.Tensor", 0, "aten::remainder.Scalar_Tensor", {0, 1}},
        {"aten::fmod.Tensor", 1, "aten::fmod.Scalar", {0, 1}},
        {"aten::floor_divide", 1, "aten::floor_divide.Scalar", {0, 1}},
        {"aten::bitwise_left_shift.Tensor", 1, "aten::bitwise_left_shift.Tensor_Scalar", {0, 1}},
        {"aten::bitwise_right_shift.Tensor", 1, "aten::bitwise_right_shift.Tensor_Scalar", {0, 1}},
        {"aten::xlogy.Tensor", 1, "aten::xlogy.Scalar_Other", {0, 1}},
        {"aten::masked_fill.Tensor", 2, "aten::masked_fill.Scalar", {0, 1, 2}},
        {"aten::lerp.Tensor", 2, "aten::lerp.Scalar", {0, 1, 2}},
        {"aten::fill.Tensor", 1, "aten::fill.Scalar", {0, 1}},
        {"aten::copysign.Tensor", 1, "aten::copysign.Scalar", {0, 1}},
        {"aten::where.self", 2, "aten::where.ScalarOther", {0, 1, 2}},
        {"aten::where.self", 1, "aten::where.ScalarSelf", {0, 1, 2}},
        {"aten::clamp_min.Tensor", 1, "aten::clamp_min", {0, 1}},
        {"aten::clamp_max.Tensor", 1, "aten::clamp_max", {0, 1}},
    };
    for (const char* op : {"bitwise_and", "bitwise_or", "bitwise_xor", "eq", "ne", "lt", "le", "gt", "ge"}) {
      // Leaked on purpose: the table lives as long as the process.
      const auto keep = [](std::string s) { return (new std::string(std::move(s)))->c_str(); };
      t.push_back({keep(fmt::format("aten::{}.Tensor", op)), 1, keep(fmt::format("aten::{}.Scalar", op)), {0, 1}});
    }
    return t;
  }();
  return table;
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
    for (const Overload& o : overloads()) {
      if (o.number != numbers[0] || schema.name != o.from) continue;
      const graph::Op* to = graph::find_op(o.to);
      if (!to || !to->row) break;
      std::vector<Arg> moved;
      for (size_t i : o.order) moved.push_back(args[i]);
      op = to;
      args = std::move(moved);
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
