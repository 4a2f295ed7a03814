#include "pipeline/strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

namespace vesta::pipeline {
namespace {

// Machine code is at most so many times as fast as the program, before anything is known of the graph.
constexpr double kMostSpeedUp = 4;
// A graph's machine code takes at least this share of MachineCosts::code_us for each operator.
constexpr double kLeastCode = 0.3;

struct Costs {
  std::mutex mutex;
  MachineCosts now;
};
Costs& costs() {
  static auto* c = new Costs;  // compiles read it while the process exits
  return *c;
}

struct Operand {
  std::vector<int64_t> sizes;
  int64_t element_bytes = 0;
  int64_t count() const {
    int64_t n = 1;
    for (const int64_t s : sizes) n *= s;
    return n;
  }
  int64_t bytes() const { return count() * element_bytes; }
};

Operand operand(const std::vector<Expr>& sizes, DType dtype) {
  Operand out{{}, element_size(dtype)};
  for (const Expr e : sizes) out.sizes.push_back(hint(e));
  return out;
}

// A call of an operator: its tensors in the order of its arguments, and its first result.
struct OperatorCall {
  std::string_view op;  // without the overload
  bool is_binary;       // its overload: another operand stands between the input and the weight
  std::vector<Operand> inputs;
  Operand result;
};

// A whole recurrent layer: each row of the input is multiplied with every weight. The weights have two dimensions.
double microseconds_of_recurrent(const OperatorCall& c, const MachineCosts& m) {
  if (c.inputs.empty() || c.inputs[0].sizes.empty()) return 0;
  double weights = 0;
  for (size_t i = 1; i < c.inputs.size(); ++i)
    if (c.inputs[i].sizes.size() == 2) weights += static_cast<double>(c.inputs[i].count());
  const int64_t rows = c.inputs[0].count() / std::max<int64_t>(1, c.inputs[0].sizes.back());
  return m.recurrent_us + 2 * static_cast<double>(rows) * weights / m.recurrent_flops_us;
}

// What a call takes besides the time of a small call and the time to move its bytes.
double microseconds_of_work(const OperatorCall& c, const MachineCosts& m) {
  const auto last = [&](size_t i) {
    const bool known = i < c.inputs.size() && !c.inputs[i].sizes.empty();
    return known ? static_cast<double>(c.inputs[i].sizes.back()) : 0.0;
  };
  const auto results = static_cast<double>(c.result.count());
  for (const std::string_view op : {"aten::mm", "aten::bmm", "aten::matmul", "aten::linear", "aten::_int_mm"})
    if (c.op == op) return m.linear_us + 2 * results * last(0) / m.linear_flops_us;
  if (c.op == "aten::addmm" || c.op == "aten::baddbmm") return m.linear_us + 2 * results * last(1) / m.linear_flops_us;
  if (c.op.starts_with("mkldnn::_linear")) return m.packed_linear_us + 2 * results * last(0) / m.packed_linear_flops_us;
  const bool is_packed = c.op.starts_with("mkldnn::_convolution");
  if (is_packed || c.op == "aten::convolution") {
    const size_t weight = c.is_binary ? 2 : 1;
    if (c.inputs.size() <= weight || c.inputs[weight].sizes.empty()) return 0;
    const Operand& w = c.inputs[weight];
    const double inner = static_cast<double>(w.count()) / static_cast<double>(std::max<int64_t>(1, w.sizes[0]));
    if (is_packed) return m.packed_convolution_us + 2 * results * inner / m.packed_convolution_flops_us;
    return m.convolution_us + 2 * results * inner / m.convolution_flops_us +
           static_cast<double>(w.bytes()) / m.convolution_weights_us;
  }
  if (c.op.starts_with("aten::_scaled_dot_product") || c.op.starts_with("aten::scaled_dot_product")) {
    if (c.inputs.size() < 2 || c.inputs[1].sizes.size() < 2) return 0;
    const std::vector<int64_t>& keys = c.inputs[1].sizes;
    const auto queries = static_cast<double>(c.inputs[0].count());
    return m.attention_us + 4 * queries * static_cast<double>(keys[keys.size() - 2]) / m.linear_flops_us;
  }
  for (const std::string_view op :
       {"aten::mkldnn_rnn_layer", "aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"})
    if (c.op == op) return microseconds_of_recurrent(c, m);
  if (c.op.starts_with("aten::_embedding_bag")) return m.bag_us;
  if (c.op == "aten::index" || c.op == "aten::index_put") return m.index_us;
  return 0;
}

// An operator that reads as many elements of its first input as it gives.
bool picks(std::string_view op) {
  return op.find("embedding") != op.npos || op.find("index") != op.npos || op.find("gather") != op.npos;
}

double time_of(const OperatorCall& c, const MachineCosts& m) {
  auto bytes = static_cast<double>(c.result.bytes());
  if (picks(c.op)) {
    bytes *= 2;
  } else {
    for (const Operand& in : c.inputs) bytes += static_cast<double>(in.bytes());
  }
  return m.call_us + bytes / m.bytes_per_us + microseconds_of_work(c, m);
}

OperatorCall call_named(const std::string& op) {
  return {std::string_view(op).substr(0, op.find('.')), op.ends_with(".binary"), {}, {}};
}

OperatorCall call_of(const graph::Node& n) {
  OperatorCall c = call_named(n.op->name);
  n.for_each_input([&](const graph::Value* v) { c.inputs.push_back(operand(v->type.sizes, v->type.dtype)); });
  for (const graph::Value* v : n.results)
    if (v) return c.result = operand(v->type.sizes, v->type.dtype), c;
  return c;
}

OperatorCall call_of(const schedule::ExternStep& s, const schedule::Plan& plan) {
  OperatorCall c = call_named(s.op->name);
  const auto add = [&](const schedule::BufferView& v) {
    if (v.buffer >= 0) c.inputs.push_back(operand(v.sizes, v.dtype));
  };
  for (const schedule::ExternArg& a : s.args) {
    if (const auto* v = std::get_if<schedule::BufferView>(&a)) add(*v);
    if (const auto* list = std::get_if<schedule::ViewList>(&a)) std::ranges::for_each(list->views, add);
  }
  if (!s.results.empty() && s.results[0] >= 0) {
    const graph::TensorType& t = plan.buffers[static_cast<size_t>(s.results[0])].type;
    c.result = operand(t.sizes, t.dtype);
  }
  return c;
}

// The costs for one graph: a call finds nothing in the caches of what does not fit them.
MachineCosts costs_for(const graph::Graph& traced) {
  MachineCosts m = machine_costs();
  double bytes = 0;
  for (const graph::Input& i : traced.inputs)
    bytes += static_cast<double>(operand(i.value->type.sizes, i.value->type.dtype).bytes());
  if (bytes > m.last_cache_bytes) m.bytes_per_us = m.memory_bytes_us;
  return m;
}

// Milliseconds that `calls` calls save against the program itself, without the compile.
double gain_ms(double eager_us, double us, double ms, int64_t calls) {
  return static_cast<double>(calls) * (eager_us - us) / 1e3 - ms;
}

}  // namespace

MachineCosts machine_costs() {
  const std::lock_guard lock(costs().mutex);
  return costs().now;
}

void set_machine_costs(const MachineCosts& c) {
  const std::lock_guard lock(costs().mutex);
  costs().now = c;
}

StrategyChoice::StrategyChoice(const graph::Graph& traced, int64_t frames, double eager_us, int64_t expected_calls)
    : costs_(costs_for(traced)) {
  report_.expected_calls = expected_calls;
  report_.calls_us = report_.whole_us = costs_.entry_us;
  report_.eager_us = static_cast<double>(frames) * costs_.frame_us;
  traced.for_each_node([&](const graph::Node* n) {
    const bool is_view = n->op->family() == graph::Family::View;
    const double us = is_view ? 0 : time_of(call_of(*n), costs_);
    if (!is_view) report_.whole_us += microseconds_of_work(call_of(*n), costs_) / kMostSpeedUp;
    report_.whole_ms += kLeastCode * costs_.code_us / 1e3;
    report_.calls_us += us;
    report_.eager_us += costs_.python_us + (is_view ? costs_.call_us : us);
    report_.calls_ms += costs_.plan_us / 1e3;
  });
  if (eager_us > 0) report_.eager_us = std::min(report_.eager_us, eager_us);
}

bool StrategyChoice::whole_may_pay() const {
  const StrategyReport& r = report_;
  const double calls = gain_ms(r.eager_us, r.calls_us, r.calls_ms, r.expected_calls);
  return gain_ms(r.eager_us, r.whole_us, r.whole_ms, r.expected_calls) > std::max(0.0, calls);
}

StrategyReport StrategyChoice::choose(const schedule::Plan* whole) {
  StrategyReport& r = report_;
  if (whole) predict(*whole);
  const double calls = gain_ms(r.eager_us, r.calls_us, r.calls_ms, r.expected_calls);
  const double code = gain_ms(r.eager_us, r.whole_us, r.whole_ms, r.expected_calls);
  r.chosen = whole && code >= calls ? "whole" : "calls";
  if (std::max(whole ? code : calls, calls) <= 0) r.chosen = "eager";
  return r;
}

void StrategyChoice::predict(const schedule::Plan& whole) {
  StrategyReport& r = report_;
  r.whole_us = costs_.entry_us;
  r.whole_ms = 0;
  std::set<std::string_view> texts;
  for (const schedule::Step& s : whole.steps) {
    if (const auto* k = std::get_if<schedule::KernelStep>(&s)) {
      r.whole_us += costs_.step_us + k->estimated_us * (k->flops > 0 ? costs_.product_factor : costs_.kernel_factor);
      texts.insert(k->text);
    } else if (const auto* e = std::get_if<schedule::ExternStep>(&s)) {
      r.whole_us += time_of(call_of(*e, whole), costs_);
    }
  }
  for (const std::string_view text : texts) r.whole_ms += costs_.codegen_us * static_cast<double>(text.size()) / 1e6;
}

std::string to_string(const StrategyReport& r) {
  return fmt::format(
      "predicted for {} calls: eager {:.3g} us a call, calls into ATen {:.3g} us after {:.3g} ms, machine code {:.3g} "
      "us after {:.3g} ms",
      r.expected_calls, r.eager_us, r.calls_us, r.calls_ms, r.whole_us, r.whole_ms);
}

bool may_gain(double call_us, int64_t operators, int64_t expected_calls) {
  const MachineCosts m = machine_costs();
  const auto n = static_cast<double>(operators);
  const double graph_ms = n * (m.trace_us + m.plan_us) / 1e3;
  const double calls = gain_ms(n * m.saved_us, 0, graph_ms, expected_calls);
  const double code = gain_ms(call_us, call_us / kMostSpeedUp, graph_ms + n * m.code_us / 1e3, expected_calls);
  return std::max(calls, code) > 0;
}

}  // namespace vesta::pipeline
