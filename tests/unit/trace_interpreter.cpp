#include "trace_interpreter.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "interop/torch_types.h"
#include "trace/graph_interpreter.h"

namespace vesta::trace::test {
namespace {

// Strides of dimensions of size 1 are arbitrary between meta functions and kernels of ATen itself.
std::vector<int64_t> effective(std::vector<int64_t> strides, const at::Tensor& t) {
  for (int64_t d = 0; d < t.dim(); ++d)
    if (t.size(d) == 1) strides[static_cast<size_t>(d)] = 0;
  return strides;
}

// Values never change: an extern call must not see a later write through a shared memory.
void run_and_check(GraphInterpreter& in, const graph::Node& n) {
  const std::string& name = n.op->name;
  const std::vector<at::Tensor> results = in.run(n);
  for (size_t i = 0; i < results.size(); ++i) {
    const graph::Value* v = n.results[i];
    if (!v) continue;
    EXPECT_EQ(name + " " + std::string(vesta::name(v->type.dtype)),
              name + " " + std::string(vesta::name(to_dtype(results[i].scalar_type()))));
    EXPECT_EQ(in.numbers(v->type.sizes), results[i].sizes().vec()) << name;
    if (results[i].numel() > 0 && name != "aten::copy") {
      EXPECT_EQ(effective(in.numbers(v->type.strides), results[i]), effective(results[i].strides().vec(), results[i]))
          << name;
    }
  }
}

at::Tensor copy_of(const at::Tensor& t) {
  at::Tensor out = at::empty_strided(t.sizes(), t.strides(), t.options());
  if (t.is_conj()) out = at::_conj(out);
  if (t.is_neg()) out = at::_neg_view(out);
  out.copy_(t);
  return out;
}

at::Tensor memory_of(at::Tensor t) {
  if (t.is_conj()) t = at::_conj(t);
  return t.is_neg() ? at::_neg_view(t) : t;
}

// A copy of each tensor that keeps which of them share a tensor or a storage.
std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& ts) {
  std::vector<at::Tensor> out;
  for (size_t i = 0; i < ts.size(); ++i) {
    size_t same = 0;
    while (same < i && !ts[same].is_same(ts[i])) ++same;
    if (same < i) {
      out.push_back(out[same]);
      continue;
    }
    bool expanded = false;
    for (int64_t d = 0; d < ts[i].dim(); ++d) expanded |= ts[i].stride(d) == 0 && ts[i].size(d) > 1;
    out.push_back(expanded ? ts[i] : copy_of(ts[i]));
  }
  return out;
}

void expect_same(const at::Tensor& got, const at::Tensor& want, const std::string& what) {
  ASSERT_EQ(got.defined(), want.defined()) << what;
  if (!want.defined()) return;
  EXPECT_EQ(got.scalar_type(), want.scalar_type()) << what;
  EXPECT_EQ(got.is_conj(), want.is_conj()) << what;
  EXPECT_EQ(got.is_neg(), want.is_neg()) << what;
  EXPECT_EQ(got.sizes(), want.sizes()) << what;
  if (want.numel() > 0) {
    EXPECT_EQ(effective(got.strides().vec(), want), effective(want.strides().vec(), want)) << what;
  }
  if (got.sizes() == want.sizes() && got.scalar_type() == want.scalar_type()) {
    EXPECT_TRUE(at::allclose(got, want, 1e-5, 1e-6, true)) << what << "\ngot " << got << "\nwant " << want;
  }
}

void run_and_compare(const Traced& traced, const std::vector<at::Tensor>& inputs, const TensorProgram& program,
                     uint64_t seed) {
  const std::vector<at::Tensor> mine = copies_of(inputs), theirs = copies_of(inputs);
  at::manual_seed(seed);
  const auto want = program(theirs);
  at::manual_seed(seed);
  const graph::Graph& g = *traced.graph;
  std::vector<int64_t> symbols;
  for (const auto& s : g.symbols) {
    const at::Tensor& t = mine.at(static_cast<size_t>(s.input));
    symbols.push_back(s.stride ? t.stride(s.dim) : t.size(s.dim));
  }
  std::vector<at::Tensor> all = mine;
  all.insert(all.end(), traced.lifted.begin(), traced.lifted.end());
  const auto got = interpret(g, all, symbols);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    expect_same(got[i].isTensor() ? got[i].toTensor() : at::Tensor(), want[i], "result " + std::to_string(i));
    // Aliasing with inputs and among results must be eager's.
    if (!want[i].defined()) continue;
    for (size_t j = 0; j < inputs.size(); ++j) {
      EXPECT_EQ(got[i].toTensor().is_same(mine[j]), want[i].is_same(theirs[j])) << "result " << i << " input " << j;
      EXPECT_EQ(got[i].toTensor().is_alias_of(mine[j]), want[i].is_alias_of(theirs[j]))
          << "result " << i << " input " << j;
    }
  }
  for (size_t i = 0; i < mine.size(); ++i) expect_same(mine[i], theirs[i], "input " + std::to_string(i));
}

}  // namespace

std::vector<c10::IValue> interpret(const graph::Graph& g, const std::vector<at::Tensor>& inputs,
                                   const std::vector<int64_t>& symbols) {
  GraphInterpreter in(g, symbols);
  EXPECT_EQ(g.inputs.size(), inputs.size());
  for (size_t i = 0; i < g.inputs.size(); ++i) in.set(g.inputs[i].value, memory_of(inputs[i]));
  g.for_each_node([&](graph::Node* n) { run_and_check(in, *n); });
  // All reads come before the first write.
  std::vector<at::Tensor> fresh(g.outputs.size()), writes;
  for (size_t i = 0; i < g.outputs.size(); ++i)
    if (g.outputs[i].kind == graph::OutputKind::Fresh) fresh[i] = copy_of(in.get(g.outputs[i].value));
  for (const auto& m : g.mutations) writes.push_back(copy_of(in.get(m.value)));
  for (size_t i = 0; i < writes.size(); ++i) {
    at::Tensor target = memory_of(inputs[static_cast<size_t>(g.mutations[i].input)]);
    target.copy_(writes[i]);
  }
  std::vector<c10::IValue> out;
  for (size_t i = 0; i < g.outputs.size() && !g.outputs[i].hidden; ++i) {
    const graph::Output& o = g.outputs[i];
    const auto view = [&](at::Tensor of) {
      of = memory_of(of);
      const c10::ScalarType dtype = to_scalar_type(o.type.dtype);
      if (of.scalar_type() != dtype) {  // all of its storage, as the other type
        const auto item = static_cast<int64_t>(of.itemsize());
        const int64_t start = of.storage_offset() * item;
        of = of.as_strided({static_cast<int64_t>(of.storage().nbytes()) / item}, {1}, 0).view(dtype);
        of = of.slice(0, start / static_cast<int64_t>(of.itemsize()));
      }
      of = of.as_strided(in.numbers(o.type.sizes), in.numbers(o.type.strides),
                         in.number(o.storage_offset) + (o.absolute_offset ? 0 : of.storage_offset()));
      if (o.conj_neg.conj) of = at::_conj(of);
      return o.conj_neg.neg ? at::_neg_view(of) : of;
    };
    switch (o.kind) {
      case graph::OutputKind::Fresh: out.emplace_back(fresh[i]); break;
      case graph::OutputKind::Input: out.emplace_back(inputs[static_cast<size_t>(o.alias)]); break;
      case graph::OutputKind::InputView: out.emplace_back(view(inputs[static_cast<size_t>(o.alias)])); break;
      case graph::OutputKind::OutputView: out.emplace_back(view(fresh[static_cast<size_t>(o.alias)])); break;
      case graph::OutputKind::Integer: out.emplace_back(in.number(o.integer)); break;
      case graph::OutputKind::None: out.emplace_back(at::Tensor()); break;
    }
  }
  return out;
}

std::vector<TraceInput> trace_inputs(const std::vector<at::Tensor>& inputs, bool dynamic) {
  std::vector<TraceInput> out;
  for (const auto& t : inputs) {
    TraceInput in{.value = t};
    if (dynamic) in.dynamic.assign(static_cast<size_t>(t.dim()), true);
    out.push_back(std::move(in));
  }
  return out;
}

Program boxed(const TensorProgram& program) {
  return [program](const std::vector<c10::IValue>& args) {
    std::vector<at::Tensor> tensors;
    for (const auto& a : args) tensors.push_back(a.toTensor());
    std::vector<c10::IValue> out;
    for (auto& t : program(tensors)) out.emplace_back(std::move(t));
    return out;
  };
}

std::string text(const Traced& t) { return graph::print(*t.graph); }

bool has_op(const Traced& t, std::string_view name) {
  bool found = false;
  t.graph->for_each_node([&](graph::Node* n) { found |= n->op->name == name; });
  return found;
}

void check_again(const Traced& traced, const std::vector<at::Tensor>& inputs, const TensorProgram& program) {
  run_and_compare(traced, inputs, program, 1);
}

Traced check(const std::vector<at::Tensor>& inputs, const TensorProgram& program, const Options& options) {
  const std::vector<at::Tensor> before = copies_of(inputs);
  at::manual_seed(options.seed);
  const at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const at::Tensor state = generator.get_state();
  Traced traced = trace(trace_inputs(inputs, options.dynamic), boxed(program));
  EXPECT_TRUE(at::equal(state, generator.get_state())) << "tracing drew random numbers";
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(at::allclose(inputs[i], before[i], 0, 0, true)) << "tracing wrote input " << i;
  EXPECT_FALSE(is_tracing());
  EXPECT_NO_THROW(graph::verify(*traced.graph)) << text(traced);
  // Parsing numbers the values anew; a second round changes nothing.
  const std::string again = graph::print(*graph::parse(text(traced)));
  EXPECT_EQ(graph::print(*graph::parse(again)), again);
  SCOPED_TRACE(text(traced));
  run_and_compare(traced, inputs, program, options.seed);
  return traced;
}

}  // namespace vesta::trace::test
