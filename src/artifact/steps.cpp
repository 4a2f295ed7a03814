#include "artifact/steps.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "artifact/uses.h"

namespace vesta::artifact {
namespace {

using Writers = std::set<int32_t>;  // steps that wrote to a buffer

bool lives_at(const Buffer& b, int step) { return b.first_step <= step && step <= b.last_step; }

int64_t arena_bytes_at(const Artifact& a, int step) {
  int64_t bytes = 0;
  for (const Buffer& b : a.buffers)
    if (b.role == Role::Arena && lives_at(b, step)) bytes += b.bytes.run({});
  return bytes;
}

// The runtime makes an output when its first step runs, and keeps it; it keeps a returned tensor until its last step.
int64_t held_bytes_at(const Artifact& a, int step) {
  int64_t bytes = a.arena.kept_bytes + (step < a.arena.early_end ? a.arena.early_bytes : 0);
  for (const Buffer& b : a.buffers)
    if ((b.role == Role::Returned && lives_at(b, step)) || (b.role == Role::Output && b.first_step <= step))
      bytes += b.bytes.run({});
  return bytes;
}

int64_t numel(const std::vector<Size>& sizes) {
  int64_t n = 1;
  for (const Size& s : sizes) n *= s.run({});
  return n;
}

// Of the tensors that a call reads and writes.
int64_t bytes_of(const Artifact& a, const Extern& e) {
  int64_t bytes = 0;
  for_each_view(Step(e), [&](const View& v) {
    if (v.buffer >= 0) bytes += numel(v.sizes) * element_size(v.dtype);
  });
  for (const int b : e.results)
    if (b >= 0) bytes += a.buffers[static_cast<size_t>(b)].bytes.run({});
  return bytes;
}

// Counts the elements of a layer's weights. These are all two-dimensional arguments but the first argument.
int64_t matrix_elements(const Extern& e) {
  int64_t n = 0;
  const auto add = [&](const View& v) {
    if (v.sizes.size() == 2) n += numel(v.sizes);
  };
  for (size_t i = 1; i < e.args.size(); ++i) {
    if (const auto* one = std::get_if<View>(&e.args[i].value)) add(*one);
    if (const auto* list = std::get_if<std::vector<View>>(&e.args[i].value)) std::ranges::for_each(*list, add);
  }
  return n;
}

// A call as products: each element of the result takes `inner` multiplications.
int64_t flops_of(const Artifact& a, const Extern& e) {
  const std::string_view op = std::string_view(e.op).substr(0, e.op.find('.'));
  const auto sizes = [&](size_t argument) -> const std::vector<Size>* {
    const View* v = argument < e.args.size() ? std::get_if<View>(&e.args[argument].value) : nullptr;
    return v && !v->sizes.empty() ? &v->sizes : nullptr;
  };
  if (e.results.empty() || e.results[0] < 0) return 0;
  const int64_t results = numel(a.buffers[static_cast<size_t>(e.results[0])].type.sizes);
  // By operator, the argument whose last size is summed over.
  static const std::map<std::string_view, size_t> products = {
      {"aten::mm", 0},
      {"aten::bmm", 0},
      {"aten::matmul", 0},
      {"aten::linear", 0},
      {"aten::addmm", 1},
      {"aten::baddbmm", 1},
      {"aten::_int_mm", 0},
      {"aten::_scaled_mm", 0},
      {"mkldnn::_linear_pointwise", 0},
      // Of experts: each row is multiplied with one of several matrices.
      {"aten::_grouped_mm", 0},
      {"aten::_scaled_grouped_mm", 0},
      {"transformers::grouped_mm_fallback", 0}};
  if (const auto it = products.find(op); it != products.end()) {
    const auto* const left = sizes(it->second);
    return left ? 2 * results * left->back().run({}) : 0;
  }
  if (op == "aten::convolution" || op.starts_with("mkldnn::_convolution")) {
    const size_t weight = e.op.ends_with(".binary") ? 2 : 1;  // with another operand between input and weight
    const auto* const w = sizes(weight);
    return w ? 2 * results * numel(*w) / std::max<int64_t>(1, w->front().run({})) : 0;
  }
  // Whole layers: each row of the first argument is multiplied with every weight.
  static const std::set<std::string_view> layers = {"aten::mkldnn_rnn_layer",
                                                    "aten::lstm",
                                                    "aten::gru",
                                                    "aten::rnn_tanh",
                                                    "aten::rnn_relu",
                                                    "aten::_transformer_encoder_layer_fwd",
                                                    "aten::_cudnn_rnn",
                                                    "aten::_native_multi_head_attention"};
  if (layers.contains(op)) {
    const auto* const x = sizes(0);
    return x ? 2 * numel(*x) / std::max<int64_t>(1, x->back().run({})) * matrix_elements(e) : 0;
  }
  if (op.starts_with("aten::_scaled_dot_product")) {  // queries, keys: a product for the scores, one with the values
    const auto *const q = sizes(0), *const k = sizes(1);
    return q && k && k->size() > 1 ? 4 * numel(*q) * (*k)[k->size() - 2].run({}) : 0;
  }
  return 0;
}

class Collector {
 public:
  // `written`: for each buffer of `a`, the steps that wrote to it before. Returns those of the end.
  std::vector<Writers> add(const Artifact& a, std::vector<Writers> written) {
    size_t kernel = 0;  // a.about lists the kernels of both lists of steps in their order
    for (const Step& s : a.prepacked) kernel += std::holds_alternative<Launch>(s);
    for (size_t i = 0; i < a.steps.size(); ++i) {
      const Step& s = a.steps[i];
      if (const auto* call = std::get_if<Call>(&s)) {
        enter(a, *call, written);
        continue;
      }
      const auto number = static_cast<int32_t>(steps.size());
      StepInfo info = named(s);
      if (info.is_kernel && kernel < a.about.kernels.size()) {
        const KernelInfo& known = a.about.kernels[kernel++];
        info.ops = known.ops;
        info.bytes = known.bytes;
        info.estimated_us = known.estimated_us;
        info.flops = known.flops;
      }
      if (a.is_static) {
        info.arena_bytes = arena_bytes_at(a, static_cast<int>(i));
        info.held_bytes = held_bytes_at(a, static_cast<int>(i));
        if (const auto* e = std::get_if<Extern>(&s)) {
          if (!e->results.empty() && e->results[0] >= 0)
            info.dtype = name(a.buffers[static_cast<size_t>(e->results[0])].type.dtype);
          info.bytes = bytes_of(a, *e);
          info.flops = flops_of(a, *e);
        }
      }
      Writers after;
      for_each_use(s, [&](int b, uint8_t access, bool) {
        Writers& w = written[static_cast<size_t>(b)];
        if (access & kReads) after.insert(w.begin(), w.end());
      });
      for_each_use(s, [&](int b, uint8_t access, bool is_kernel) {
        if (!(access & kWrites)) return;
        Writers& w = written[static_cast<size_t>(b)];
        if (access & kReads || !is_kernel) w.clear();  // nothing reads them any more, but through this step
        w.insert(number);
      });
      info.after.assign(after.begin(), after.end());
      steps.push_back(std::move(info));
    }
    return written;
  }

  std::vector<StepInfo> steps;

 private:
  static StepInfo named(const Step& s) {
    StepInfo info;
    if (const auto* l = std::get_if<Launch>(&s)) {
      info.name = l->name;
      info.is_kernel = true;
    } else if (const auto* e = std::get_if<Extern>(&s)) {
      info.name = e->op;
      info.source = e->source;
    } else if (std::holds_alternative<Assert>(s)) {
      info.name = "check";
    } else {
      info.name = "write to an input";
    }
    return info;
  }

  void enter(const Artifact& a, const Call& call, std::vector<Writers>& written) {
    const Artifact& entry = a.entries[static_cast<size_t>(call.entry)];
    std::vector<Writers> inner(entry.buffers.size());
    for (size_t b = 0; b < entry.buffers.size(); ++b) {
      const int input = entry.buffers[b].role == Role::Input ? entry.buffers[b].input : -1;
      const int given = input < 0 ? -1 : call.inputs[static_cast<size_t>(input)].buffer;
      if (given >= 0) inner[b] = written[static_cast<size_t>(given)];
    }
    inner = add(entry, std::move(inner));
    for (size_t i = 0; i < call.results.size(); ++i) {
      const int from = entry.outputs[i].view.buffer;
      if (call.results[i] >= 0 && from >= 0)
        written[static_cast<size_t>(call.results[i])] = inner[static_cast<size_t>(from)];
    }
  }
};

}  // namespace

std::vector<StepInfo> steps_of(const Artifact& artifact) {
  Collector all;
  all.add(artifact, std::vector<Writers>(artifact.buffers.size()));
  return std::move(all.steps);
}

int64_t output_bytes_of(const Artifact& artifact) {
  if (!artifact.is_static) return -1;
  std::set<int> made;
  for (const Output& o : artifact.outputs)
    if (o.kind == OutputKind::Fresh) made.insert(o.view.buffer);
  int64_t bytes = 0;
  for (const int b : made)
    if (b >= 0) bytes += artifact.buffers[static_cast<size_t>(b)].bytes.run({});
  return bytes;
}

}  // namespace vesta::artifact
