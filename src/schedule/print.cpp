// Prints the plan: one line for each buffer, step and output. Kernels print their own text below their line.
#include <fmt/format.h>

#include "base/join.h"
#include "graph/text.h"
#include "schedule/plan.h"

namespace vesta::schedule {

namespace {

std::string list(std::span<const Expr> e) {
  return "[" + join(e, [](Expr x) { return to_string(x); }) + "]";
}

std::string text(const graph::TensorType& t) {
  return fmt::format("{}{} strides {}", name(t.dtype), list(t.sizes), list(t.strides));
}

std::string_view text(BufferRole r) {
  constexpr std::string_view names[] = {"input", "output", "arena", "returned", "prepacked"};
  return names[static_cast<size_t>(r)];
}

std::string text(const BufferView& v) {
  if (v.buffer < 0) return "none";
  std::string s = fmt::format("b{}{}", v.buffer, list(v.sizes));
  s += " strides " + list(v.strides);
  if (!v.offset.is_constant(0)) s += " offset " + to_string(v.offset);
  return s;
}

std::string text(const ExternArg& a) {
  if (auto* v = std::get_if<BufferView>(&a)) return text(*v);
  if (auto* l = std::get_if<ViewList>(&a))
    return "[" + join(l->views, [](const BufferView& v) { return text(v); }) + "]";
  return graph::text(std::get<graph::Arg>(a));
}

// The shape of the loops in one line: parallel ranges, inner ranges, vector and block.
std::string loops_of(const loops::Kernel& k) {
  std::string p, r;
  bool reduces = false;
  for (const loops::Instr& i : k.instrs) reduces |= i.kind == loops::InstrKind::Accumulate;
  for (size_t i = 0; i < k.ranges.size(); ++i) {
    std::string& s = k.ranges[i].kind == loops::RangeKind::Parallel ? p : r;
    if (!s.empty()) s += " x ";
    s += to_string(k.ranges[i].extent);
    if (static_cast<int>(i) == k.vector) s += "*";
  }
  const bool row = k.vector >= 0 && k.ranges[static_cast<size_t>(k.vector)].kind == loops::RangeKind::Inner;
  std::string s = row ? "row" : reduces ? "column" : r.empty() ? "pointwise" : "tiled";
  s += " (" + p + (r.empty() ? "" : " | " + r) + ")";
  if (!k.block.is_constant(0)) s += " block " + to_string(k.block);
  if (!k.row_slots.empty()) s += fmt::format(" rows kept {}", k.row_slots.size());
  return s;
}

std::string indented(const std::string& s) {
  std::string out;
  for (size_t at = 0; at < s.size();) {
    size_t end = std::min(s.find('\n', at), s.size());
    out += "    " + s.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return out;
}

std::string text(const Step& step) {
  if (auto* k = std::get_if<KernelStep>(&step)) {
    std::string s = "kernel";
    for (const std::string_view op : k->ops) s.append(" ").append(op.starts_with("aten::") ? op.substr(6) : op);
    s += fmt::format("\n    {}; items {}; {} bytes, {:.1f} us\n    buffers", loops_of(*k->kernel), to_string(k->items),
                     k->estimated_bytes, k->estimated_us);
    for (const KernelArg& a : k->args) {
      s += fmt::format(" b{}", a.buffer);
      if (!a.offset.is_constant(0)) s += "+" + to_string(a.offset);
    }
    if (!k->sizes.empty()) s += "; sizes " + list(k->sizes);
    return s + "\n" + indented(k->text);
  }
  if (auto* x = std::get_if<ExternStep>(&step)) {
    std::string s = "extern " + x->op->name + "(";
    s += join(x->args, [](const ExternArg& a) { return text(a); }) + ") ->";
    for (int r : x->results) s += r < 0 ? " _" : fmt::format(" b{}", r);
    return s + "  # " + x->reason + "\n";
  }
  if (auto* a = std::get_if<AssertStep>(&step)) return fmt::format("assert b{}, \"{}\"\n", a->flag, a->message);
  const auto& c = std::get<CopyStep>(step);
  return fmt::format("copy {} -> input {}\n", text(c.from), c.input);
}

}  // namespace

std::string print(const Plan& plan) {
  std::string s;
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& x = plan.buffers[b];
    s += fmt::format("buffer b{}: {} {}", b, text(x.role), text(x.type));
    if (x.input >= 0) s += fmt::format(", input {}", x.input);
    if (x.output >= 0) s += fmt::format(", output {}", x.output);
    if (x.first_step >= 0 && x.role != BufferRole::Input) s += fmt::format(", steps {}..{}", x.first_step, x.last_step);
    if (b < plan.arena.offsets.size() && plan.arena.offsets[b] >= 0)
      s += fmt::format(", at {}{}", plan.arena.is_early(x.last_step) ? "early " : "", plan.arena.offsets[b]);
    s += "\n";
  }
  s += fmt::format("arena {} bytes", plan.arena.kept_bytes);
  if (plan.arena.early_end > 0) s += fmt::format(" and {} until step {}", plan.arena.early_bytes, plan.arena.early_end);
  s += "\n";
  for (size_t i = 0; i < plan.prepacked.size(); ++i) s += fmt::format("prepacked {}: {}", i, text(plan.prepacked[i]));
  for (size_t i = 0; i < plan.steps.size(); ++i) s += fmt::format("step {}: {}", i, text(plan.steps[i]));
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    if (plan.outputs[i].buffer >= 0) s += fmt::format("output {}: {}\n", i, text(plan.outputs[i]));
  return s;
}

}  // namespace vesta::schedule
