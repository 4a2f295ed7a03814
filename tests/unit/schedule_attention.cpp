// Attention of one query as kernels for a GPU: what the interpreter makes of them, and how threads share the work.
#include <limits>

#include "cuda_plans.h"
#include "graph/passes/pass.h"
#include "schedule_run.h"

namespace {

using namespace vesta;
using namespace vesta::testing;

struct Planned {
  std::unique_ptr<graph::Graph> graph;
  schedule::Plan plan;
  std::vector<const loops::Kernel*> kernels;
  bool calls = false;  // the library
};

Planned plan_of(const DecodeStep& s) {
  Planned p;
  p.graph = on_device("cuda:0", attention_text(s));
  const Options user;
  graph::run_passes(*p.graph, {.options = user, .device = DeviceType::CUDA}, true);
  schedule::Options options = with_dags();
  options.target = machine::cuda_target_of(90);
  p.plan = schedule::make_plan(*p.graph, options);
  for (const schedule::Step& step : p.plan.steps) {
    if (const auto* k = std::get_if<schedule::KernelStep>(&step)) p.kernels.push_back(k->kernel.get());
    p.calls |= std::holds_alternative<schedule::ExternStep>(step);
  }
  return p;
}

std::vector<double> dense(const Host& h) { return elements(h, h.type.sizes, h.type.strides, 0, h.type.dtype); }

// aten::scaled_dot_product_attention of one query in F64.
std::vector<double> attention(const DecodeStep& s, const std::vector<Host>& inputs, double scale) {
  const std::vector<double> q = dense(inputs[0]), k = dense(inputs[1]), v = dense(inputs[2]);
  std::vector<double> mask;
  if (!s.mask.empty()) mask = dense(inputs[3]);
  std::vector<double> out;
  for (int64_t h = 0; h < s.batch * s.heads; ++h) {
    const int64_t cache = (h / s.heads * s.shared + h % s.heads / (s.heads / s.shared)) * s.keys;
    std::vector<double> score(static_cast<size_t>(s.keys));
    double most = -std::numeric_limits<double>::infinity(), total = 0;
    for (int64_t n = 0; n < s.keys; ++n) {
      double& x = score[static_cast<size_t>(n)];
      for (int64_t d = 0; d < s.size; ++d)
        x += q[static_cast<size_t>(h * s.size + d)] * k[static_cast<size_t>((cache + n) * s.size + d)] * scale;
      const auto rows = static_cast<int64_t>(mask.size()) / s.keys;
      if (rows > 0) x += mask[static_cast<size_t>(h % rows * s.keys + n)];
      most = std::max(most, x);
    }
    for (double& x : score) total += x = std::isinf(most) ? 0 : std::exp(x - most);
    for (int64_t d = 0; d < s.size; ++d) {
      double sum = 0;
      for (int64_t n = 0; n < s.keys; ++n)
        sum += score[static_cast<size_t>(n)] * v[static_cast<size_t>((cache + n) * s.size + d)];
      out.push_back(total > 0 ? sum / total : 0);
    }
  }
  return out;
}

// Masks every third key, and all keys of the first row.
void put_mask(Host& mask, int64_t keys) {
  for (int64_t i = 0; i < static_cast<int64_t>(mask.bytes.size()) / 4; ++i)
    if (i < keys || i % 3 == 1) mask.f32()[i] = -std::numeric_limits<float>::infinity();
}

void expect_attention(const DecodeStep& s, double scale) {
  SCOPED_TRACE(attention_text(s));
  const Planned p = plan_of(s);
  EXPECT_FALSE(p.calls) << schedule::print(p.plan);
  EXPECT_EQ(p.kernels.size(), 2u) << schedule::print(p.plan);
  std::vector<Host> inputs;
  for (const graph::Input& i : p.graph->inputs)
    inputs.push_back(random_host(i.value->type, static_cast<uint32_t>(inputs.size())));
  if (inputs.size() > 3 && s.dtype == "f32") put_mask(inputs[3], s.keys);
  const std::vector<double> want = attention(s, inputs, scale), got = run_plan(p.plan, inputs).at(0);
  ASSERT_EQ(got.size(), want.size());
  const double bound = s.dtype == "f32" ? 2e-6 : 8e-3;
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], bound * (1 + std::abs(want[i]))) << i;
}

TEST(OneQueryAttention, IsAttention) {
  expect_attention({.heads = 2, .shared = 2, .keys = 40, .size = 16}, 0.25);
  expect_attention({.batch = 3, .heads = 4, .shared = 2, .keys = 37, .size = 80, .op = "flash"}, 1 / std::sqrt(80.0));
  expect_attention({.heads = 1, .shared = 1, .keys = 1, .size = 64, .op = "efficient", .causal = "true"}, 0.125);
  expect_attention({.heads = 4, .shared = 4, .keys = 33, .size = 16, .op = "efficient", .scale = "0.5"}, 0.5);
  expect_attention({.batch = 2, .heads = 4, .shared = 4, .keys = 40, .size = 16, .dtype = "bf16"}, 0.25);
}

TEST(OneQueryAttention, MasksAndRowsThatAreMaskedEntirely) {
  for (const char* op : {"cudnn", "efficient"})
    for (const char* mask : {"1, 1, 1, 40", "1, 4, 1, 40", "1, 40"})
      expect_attention({.batch = 2, .heads = 4, .shared = 4, .keys = 40, .size = 16, .mask = mask, .op = op}, 0.25);
  expect_attention({.heads = 4, .shared = 2, .keys = 40, .size = 16, .mask = "1, 4, 1, 40"}, 0.25);
}

// A cache that grows: as many keys as the caller has.
TEST(OneQueryAttention, KeysOfAnyNumber) {
  const auto g = on_device("cuda:0", R"(symbol s0 = 40, at least 2
source s0 = size 2 of input 1
input %0 : f32[1, 4, 1, 16]@D = argument "q"
input %1 : f32[1, 2, s0, 16]@D = argument "k"
input %2 : f32[1, 2, s0, 16]@D = argument "v"
input %3 : f32[1, 1, 1, s0]@D = argument "mask"
%4 : f32[1, 4, 1, 16]@D, _, _, _, _, _, _, _, _ = aten::_scaled_dot_product_cudnn_attention(%0, %1, %2, %3, false)
output %4
)");
  const Options user;
  graph::run_passes(*g, {.options = user, .device = DeviceType::CUDA}, true);
  schedule::Options options = with_dags();
  options.target = machine::cuda_target_of(90);
  const auto plan = schedule::make_plan(*g, options);
  EXPECT_EQ(kernels(plan), 2) << schedule::print(plan);
  for (const int64_t keys : {2, 33, 40, 300}) {
    const DecodeStep s = {.heads = 4, .shared = 2, .keys = keys, .size = 16, .mask = fmt::format("1, 1, 1, {}", keys)};
    const auto fixed = on_device("cuda:0", attention_text(s));
    std::vector<Host> inputs;
    for (const graph::Input& i : fixed->inputs)
      inputs.push_back(random_host(i.value->type, static_cast<uint32_t>(inputs.size())));
    const auto want = attention(s, inputs, 0.25);
    const auto got = run_plan(plan, inputs, [&](Expr) { return keys; }).at(0);
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-6 * (1 + std::abs(want[i]))) << i;
  }
}

// Heads that share keys read them where they are, whether the operator or the program repeats them.
TEST(OneQueryAttention, SharedKeysAreNotRepeated) {
  for (const bool repeated : {false, true}) {
    const DecodeStep s = {.heads = 8, .shared = 2, .keys = 40, .size = 16, .mask = "1, 1, 1, 40", .repeated = repeated};
    expect_attention(s, 0.25);
  }
}

// A decode step of a model of 8 billion parameters. Keys are read in accesses of 16 bytes by a few threads each; values
// by columns, as many blocks as there are multiprocessors, 128 threads on the way down of each, which compute a weight
// once for the eight columns that they have.
TEST(OneQueryAttention, ThreadsOfADecodeStep) {
  const Planned p = plan_of({.heads = 32,
                             .shared = 8,
                             .keys = 1024,
                             .size = 128,
                             .dtype = "bf16",
                             .mask = "1, 1, 1, 1024",
                             .repeated = true});
  ASSERT_EQ(p.kernels.size(), 2u) << schedule::print(p.plan);
  const loops::Threads &keys = p.kernels[0]->threads, &values = p.kernels[1]->threads;
  EXPECT_EQ(keys.team, 8);
  EXPECT_EQ(keys.each, 8);
  EXPECT_TRUE(values.across);
  EXPECT_EQ(values.each, 8);
  EXPECT_EQ(values.team, 128);
  EXPECT_EQ(loops::items_of_block(*p.kernels[1]), 32);
  const std::string text = loops::print(*p.kernels[1]);
  EXPECT_EQ(loops::print(*loops::parse_kernel(text)), text);
  for (const schedule::Buffer& b : p.plan.buffers)  // no cache is repeated in memory
    if (b.role == schedule::BufferRole::Arena) {
      EXPECT_LE(hint(graph::numel(b.type)), 32 * 1024);
    }
}

TEST(OneQueryAttention, WrongRowsOfAThreadDoNotVerify) {
  const Planned p = plan_of({.keys = 1024});
  ASSERT_EQ(p.kernels.size(), 2u);
  ASSERT_TRUE(p.kernels[1]->threads.across && p.kernels[1]->threads.each > 1);
  const auto broken = [&](auto&& change) {
    auto k = loops::parse_kernel(loops::print(*p.kernels[1]));
    change(*k);
    EXPECT_THROW(loops::verify(*k), Error);
  };
  broken([](loops::Kernel& k) { k.threads.each = 3; });
  broken([](loops::Kernel& k) { k.threads.held = 64; });
  broken([](loops::Kernel& k) {
    for (loops::Range& r : k.ranges)
      if (r.kind == loops::RangeKind::Parallel) r.extent = 63;
  });
}

TEST(OneQueryAttention, OtherCallsStay) {
  for (const DecodeStep& s : {
           DecodeStep{.causal = "true"},
           DecodeStep{.heads = 6, .shared = 4},
           DecodeStep{.batch = 64, .keys = 1024},
           DecodeStep{.keys = 4097},
           DecodeStep{.mask = "64"},
       })
    EXPECT_TRUE(plan_of(s).calls) << attention_text(s);
}

}  // namespace
