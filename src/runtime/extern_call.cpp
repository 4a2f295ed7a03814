#include "runtime/extern_call.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>

#include <unordered_map>

#include "base/check.h"

namespace vesta::runtime {

namespace {

using Stack = std::vector<c10::IValue>;

bool mm_into(const Stack& s, at::Tensor& out) {
  at::mm_out(out, s[0].toTensor(), s[1].toTensor());
  return true;
}

bool bmm_into(const Stack& s, at::Tensor& out) {
  at::bmm_out(out, s[0].toTensor(), s[1].toTensor());
  return true;
}

bool addmm_into(const Stack& s, at::Tensor& out) {
  at::addmm_out(out, s[0].toTensor(), s[1].toTensor(), s[2].toTensor(), s[3].toScalar(), s[4].toScalar());
  return true;
}

bool baddbmm_into(const Stack& s, at::Tensor& out) {
  at::baddbmm_out(out, s[0].toTensor(), s[1].toTensor(), s[2].toTensor(), s[3].toScalar(), s[4].toScalar());
  return true;
}

bool mul_into(const Stack& s, at::Tensor& out) {
  at::mul_out(out, s[0].toTensor(), s[1].toTensor());
  return true;
}

bool cat_into(const Stack& s, at::Tensor& out) {
  at::cat_out(out, s[0].toTensorVector(), s[1].toInt());
  return true;
}

// at::linear's own way for these layouts (addmm or mm on rows), without its allocation.
bool linear_into(const Stack& s, at::Tensor& out) {
  const at::Tensor& x = s[0].toTensor();
  const at::Tensor& w = s[1].toTensor();
  if (w.dim() != 2 || x.dim() < 2 || !x.is_contiguous() || !out.is_contiguous()) return false;
  const int64_t columns = w.size(0);
  const at::Tensor rows = x.dim() == 2 ? x : x.view({-1, w.size(1)});
  at::Tensor out_rows = out.dim() == 2 ? out : out.view({-1, columns});
  if (s[2].isNone()) {
    at::mm_out(out_rows, rows, w.t());
  } else {
    at::addmm_out(out_rows, s[2].toTensor(), rows, w.t());
  }
  return true;
}

const std::unordered_map<std::string, IntoFn>& into_table() {
  static const std::unordered_map<std::string, IntoFn> table = {
      {"aten::mm", mm_into},           {"aten::bmm", bmm_into}, {"aten::addmm", addmm_into},
      {"aten::baddbmm", baddbmm_into}, {"aten::cat", cat_into}, {"aten::linear", linear_into},
      {"aten::mul.Tensor", mul_into},
  };
  return table;
}

}  // namespace

IntoFn find_into(const std::string& op) {
  auto it = into_table().find(op);
  return it == into_table().end() ? nullptr : it->second;
}

bool may_draw(const c10::OperatorHandle& op, const artifact::Extern& call) {
  if (call.op.rfind("aten::", 0) != 0) return true;  // nobody knows
  if (!op.hasTag(at::Tag::nondeterministic_seeded)) return false;
  const std::vector<c10::Argument>& parameters = op.schema().arguments();
  for (size_t i = 0; i < parameters.size() && i < call.args.size(); ++i) {
    const std::string& name = parameters[i].name();
    const auto* share = std::get_if<double>(&call.args[i].value);
    if (share && *share == 0 && (name == "dropout" || name == "dropout_p")) return false;
    const auto* on = std::get_if<bool>(&call.args[i].value);
    if (on && !*on && (name == "train" || name == "training")) return false;
  }
  return true;
}

c10::OperatorHandle find_operator(const std::string& op) {
  // "aten::add.Tensor": namespace::name.overload; a name has no dot of its own.
  const size_t colons = op.find("::");
  const size_t dot = op.find('.', colons == std::string::npos ? 0 : colons);
  const c10::OperatorName name(op.substr(0, dot), dot == std::string::npos ? "" : op.substr(dot + 1));
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  if (!handle) VESTA_UNSUPPORTED("this process has no operator {}", op);
  return *handle;
}

}  // namespace vesta::runtime
