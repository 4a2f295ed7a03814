// Saved programs with kernels as text, and arguments that fit them: what mutate_files changes.
//   write_seeds FOLDER   writes NAME.vesta and NAME.pt (the arguments, as torch::pickle_save writes them)
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/serialize.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

#include "graph/graph.h"
#include "interop/torch_release.h"
#include "interop/torch_types.h"
#include "pipeline/pipeline.h"
#include "program/file.h"
#include "returned_sample.h"
#include "runtime/weights.h"
#include "trace/trace.h"

namespace {

using namespace vesta;
using Values = std::vector<c10::IValue>;
using Tensors = std::vector<at::Tensor>;

struct Seed {
  std::string name;
  Values arguments;
  std::function<Values(const Values&)> function;
  bool dynamic = false;
  std::function<artifact::Artifact(artifact::Artifact)> instead = {};  // of what was compiled
};

at::Tensor tensor(const Values& x, size_t i) { return x[i].toTensor(); }

artifact::Artifact calls_of(artifact::Artifact region);

std::vector<Seed> seeds() {
  at::manual_seed(1);
  const at::Tensor w = at::randn({16, 8}), b = at::randn({16}), table = at::randn({10, 6});
  const at::Tensor filters = at::randn({8, 3, 3, 3}), scale = at::rand({8}) + 1, shift = at::randn({8}),
                   mean = at::randn({8}), variance = at::rand({8}) + 1;
  std::vector<Seed> out;
  const auto both = [&](const std::string& name, const Values& arguments, auto f) {
    out.push_back({name, arguments, f, false});
    out.push_back({name + "_any_size", arguments, f, true});
  };
  both("kernels", {at::randn({6, 9}), at::randn({6, 9})}, [](const Values& x) -> Values {
    const at::Tensor y = at::sin(tensor(x, 0) * tensor(x, 1));
    return {y.sum(1), at::softmax(y, 1), y.mean(0).t()};
  });
  both("layers", {at::randn({4, 5, 8})}, [=](const Values& x) -> Values {
    const at::Tensor y = at::gelu(at::linear(tensor(x, 0), w, b));
    return {at::layer_norm(y, {16}), at::matmul(y, w).relu()};
  });
  both("folded", {at::randn({2, 3, 7, 7})}, [=](const Values& x) -> Values {
    const at::Tensor y = at::conv2d(tensor(x, 0), filters, {}, {1, 1}, {1, 1}, {1, 1});
    return {at::max_pool2d(at::relu(at::batch_norm(y, scale, shift, mean, variance, false, 0.1, 1e-5, false)), 2)};
  });
  const at::Tensor many = at::randn({16, 16, 3, 3});
  both("convolved", {at::randn({2, 16, 9, 9})}, [=](const Values& x) -> Values {
    const at::Tensor y = at::relu(at::conv2d(tensor(x, 0), many, {}, {1, 1}, {1, 1}, {1, 1}));
    return {at::linear(y, w.slice(1, 0, 1).expand({16, 9}).contiguous()).sin()};
  });
  both("in_place", {at::arange(24.0).view({4, 6})}, [](const Values& x) -> Values {
    const at::Tensor a = tensor(x, 0);
    a.slice(0, 1).add_(1);
    const at::Tensor y = a.view({-1}).slice(0, 2) * 2;
    return {a[0], y.view({2, -1}).t(), y, a, (y + 1).unsqueeze(0)};
  });
  both("gathers", {at::tensor({1, 9, 0, 4}), at::randn({7, 6})}, [=](const Values& x) -> Values {
    const at::Tensor rows = at::embedding(table, tensor(x, 0)) + 1;
    const at::Tensor order = at::argsort(tensor(x, 1), 0, false);
    return {rows.relu(), at::gather(tensor(x, 1), 0, order) * 2,
            at::index_select(tensor(x, 1), 1, order[0].slice(0, 0, 1)), order};
  });
  both("joins", {at::randn({4, 6}), at::randn({4, 3}), at::tensor({2, 0, 3})}, [](const Values& x) -> Values {
    const at::Tensor all = at::cat({tensor(x, 0), tensor(x, 1)}, 1);
    const std::vector<at::Tensor> parts = at::unsafe_split(all, 3, 1);
    const auto [values, places] = at::topk(all, 2, 1);
    at::Tensor y = all.clone();
    y.index_put_({tensor(x, 2)}, tensor(x, 0).sum());
    return {parts[0] * parts[1], values.exp(), places, at::cumsum(all, 1), y};
  });
  both("random", {at::ones({4, 16})}, [](const Values& x) -> Values {
    return {at::rand({64}) + 1, at::dropout(tensor(x, 0), 0.5, true), at::bernoulli(tensor(x, 0) * 0.5)};
  });
  both("types", {at::randn({16}), at::arange(16), at::randn({16}).to(at::kBFloat16)}, [](const Values& x) -> Values {
    const at::Tensor f = at::fft_fft(tensor(x, 0));
    return {at::real(f) * 2,    at::complex(tensor(x, 0), tensor(x, 0)) * f,
            tensor(x, 1) * 3,   (tensor(x, 0) > 0) & (tensor(x, 1) < 9),
            tensor(x, 2).exp(), tensor(x, 0).to(at::kChar)};
  });
  both("library", {at::randn({6, 6}), at::randn({2, 6, 6})}, [](const Values& x) -> Values {
    const at::Tensor square = at::matmul(tensor(x, 0), tensor(x, 0).t()) + 7 * at::eye(6);
    return {at::linalg_inv(square).sum(0), at::bmm(tensor(x, 1), tensor(x, 1)).sin(),
            at::baddbmm(tensor(x, 1), tensor(x, 1), tensor(x, 1), 2, 0.5),
            at::scaled_dot_product_attention(tensor(x, 1), tensor(x, 1), tensor(x, 1))};
  });
  out.push_back({"region",
                 {at::randn({6, 6}), at::randn({6, 6})},
                 [](const Values& x) -> Values {
                   const at::Tensor y = at::sin(tensor(x, 0) * tensor(x, 1));
                   return {at::matmul(y, y).softmax(1), y.sum(1)};
                 },
                 false,
                 calls_of});
  // The tracer makes no steps that return integers. Among the counts are some that are no sizes.
  const at::Tensor counts = at::tensor(std::vector<int64_t>{3, -2, int64_t{1} << 40, 6, 0});
  const auto two = [](const Values& x) -> Values { return {tensor(x, 0) * 2, tensor(x, 1) + 1}; };
  out.push_back({"returned", {at::randn({6, 4}), counts}, two, true, [](auto) { return testing::returning(); }});
  out.push_back(
      {"returned_in_entry", {at::randn({6, 4}), counts}, two, false, [](auto) { return testing::calls_returning(); }});
  out.push_back({"numbers",
                 {at::randn({5, 4}), int64_t{7}},
                 [](const Values& x) -> Values {
                   const c10::SymInt n = x[1].toSymInt();
                   return {tensor(x, 0) * 2, at::full_symint({n}, 1.5, at::kFloat) + 1, tensor(x, 0).sym_size(0) * n};
                 },
                 true});
  return out;
}

// Weights of one storage each.
void add_weight(program::Program& p, std::vector<program::Memory>& memory, const at::Tensor& t) {
  program::Weight w;
  w.name = fmt::format("w{}", p.weights.size());
  w.dtype = to_dtype(t.scalar_type());
  w.sizes = t.sizes().vec();
  w.strides = t.strides().vec();
  w.storage = static_cast<int>(p.storages.size());
  w.offset = t.storage_offset();
  p.weights.push_back(w);
  p.storages.push_back({static_cast<int64_t>(t.storage().nbytes()), -1, 0});
  memory.push_back(runtime::to_be_saved(t.storage(), 0, p.storages.back().bytes));
}

// Calls `region`, whose results are new tensors, with its inputs; the first result of one call is the first argument of
// the next.
artifact::Artifact calls_of(artifact::Artifact region) {
  using artifact::Role;
  const auto whole = [](int buffer) {
    artifact::View v;
    v.buffer = buffer;
    v.whole = true;
    return v;
  };
  artifact::Artifact a;
  a.is_static = region.is_static;
  a.inputs = region.inputs;
  artifact::Call call;
  call.entry = 0;
  const auto add = [&](Role role, const artifact::TensorDesc& type, int input) {
    a.buffers.push_back({role, type, input, -1, 0, 1, {{{artifact::Size::Code::Constant, 0}}}});
    a.arena.offsets.push_back(-1);
    return static_cast<int>(a.buffers.size()) - 1;
  };
  for (size_t i = 0; i < a.inputs.size(); ++i)
    call.inputs.push_back(whole(add(Role::Input, a.inputs[i].type, static_cast<int>(i))));
  for (int turn = 0; turn < 2; ++turn) {
    call.results.clear();
    for (const artifact::Output& o : region.outputs)
      call.results.push_back(add(Role::Returned, region.buffers[static_cast<size_t>(o.view.buffer)].type, -1));
    a.steps.emplace_back(call);
    call.inputs[0] = whole(call.results[0]);
  }
  for (const int b : call.results) {
    artifact::Output o;
    o.view = whole(b);
    a.outputs.push_back(o);
  }
  a.entries = {std::move(region)};
  return a;
}

// f(xs, how='sum'): the arguments are the items of a list; the result is a tuple that holds a dict.
program::Program program_of(const Seed& seed, std::vector<program::Memory>& memory, Tensors& kept) {
  using What = program::Check::What;
  using Made = program::Make::What;
  std::vector<trace::TraceInput> inputs;
  for (const c10::IValue& x : seed.arguments) {
    const size_t places = x.isTensor() ? static_cast<size_t>(x.toTensor().dim()) : 1;
    inputs.push_back({x,
                      graph::InputKind::Argument,
                      fmt::format("x{}", inputs.size()),
                      std::vector<bool>(places, seed.dynamic || !x.isTensor()),
                      {}});
  }
  trace::Traced traced = trace::trace(inputs, seed.function);
  kept = traced.lifted;
  program::Program p;
  p.name = seed.name;
  p.parameters = {{"xs", program::Parameter::How::Plain, {}},
                  {"how", program::Parameter::How::KeywordOnly, program::Scalar(std::string("sum"))}};
  program::Variant v;
  v.origin = {graph::print(*traced.graph), true, "fast", 0, true, host_target(), torch_release()};
  v.places = {{-1, 0, {}}, {-1, 1, {}}};
  v.checks = {{What::Kind, 0, program::Kind::List, {}, 0, {}},
              {What::Length, 0, program::Kind::None, {}, static_cast<int64_t>(inputs.size()), {}},
              {What::Equals, 1, program::Kind::None, program::Scalar(std::string("sum")), 0, {}}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int place = static_cast<int>(v.places.size());
    v.places.push_back({0, static_cast<int>(i), {}});
    if (inputs[i].value.isTensor())
      v.inputs.push_back({place, -1, false});
    else
      v.integers.push_back(place);
  }
  for (const at::Tensor& t : traced.lifted) {
    v.inputs.push_back({-1, static_cast<int>(p.weights.size()), false});
    add_weight(p, memory, t);
  }
  Options options;
  options.packed_weights = 1 << 20;
  pipeline::Traced facts;
  facts.facts = {traced.same_inputs, traced.storage_offsets, traced.conj_neg};
  v.artifact = pipeline::compile(std::move(traced.graph), options, std::move(facts)).executable->artifact();
  if (seed.instead) v.artifact = seed.instead(std::move(v.artifact));
  std::vector<int> parts;
  int outputs = 0;
  for (const artifact::Output& o : v.artifact.outputs)
    if (!o.hidden) {
      parts.push_back(static_cast<int>(v.makes.size()));
      v.makes.push_back({Made::Output, {}, outputs++, {}});
    }
  const int key = static_cast<int>(v.makes.size());
  v.makes.push_back({Made::Constant, program::Scalar(int64_t{7}), 0, {}});
  v.makes.push_back({Made::Argument, {}, 2, {}});
  v.makes.push_back({Made::Dict, {}, 0, {key, key + 1}});
  parts.push_back(key + 2);
  v.makes.push_back({Made::Tuple, {}, 0, parts});
  p.variants = {v, v};
  p.variants[1].checks[2].value = program::Scalar(std::string("mean"));
  return p;
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) return std::fputs("usage: write_seeds FOLDER\n", stderr), 2;
  const std::filesystem::path folder = words[1];
  std::filesystem::create_directories(folder);
  for (const Seed& seed : seeds()) {
    try {
      std::vector<program::Memory> memory;
      Tensors kept;
      const program::Program p = program_of(seed, memory, kept);
      program::save(p, memory, folder / (seed.name + ".vesta"));
      const std::vector<char> bytes = torch::pickle_save(c10::ivalue::Tuple::create(seed.arguments));
      std::ofstream(folder / (seed.name + ".pt"), std::ios::binary).write(bytes.data(), std::ssize(bytes));
    } catch (const std::exception& e) {
      return std::fprintf(stderr, "%s: %s\n", seed.name.c_str(), e.what()), 1;
    }
  }
  return 0;
}
