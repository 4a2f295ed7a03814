// Kernels for a GPU as cases of a test: their CUDA C++ runs on the CPU, against the interpreter of kernels.
#pragma once

#include "codegen_run.h"
#include "cuda_host.h"
#include "cuda_plans.h"
#include "graph/passes/pass.h"
#include "schedule/alternatives.h"

namespace vesta::codegen::testing {

using vesta::testing::HostKernels;
using vesta::testing::on_device;
using vesta::testing::softmax_text;

struct Case {
  std::string name;
  std::unique_ptr<loops::Kernel> kernel;
  std::vector<Array> arrays;
  std::vector<int64_t> sizes;
  double ulps = 0;
  double absolute = 0;
};

inline void expect_same(std::vector<Case> cases) {
  std::vector<const loops::Kernel*> kernels;
  for (const Case& c : cases) kernels.push_back(c.kernel.get());
  HostKernels host(kernels);
  for (size_t i = 0; i < cases.size(); ++i) {
    Case& c = cases[i];
    SCOPED_TRACE(c.name);
    loops::verify(*c.kernel);
    std::vector<Array> expected = c.arrays;
    run_interpreter(*c.kernel, expected, c.sizes);
    std::vector<void*> pointers;
    for (Array& a : c.arrays) {
      a.bytes.resize(a.bytes.size() + 64, 0x5a);
      pointers.push_back(a.bytes.data());
    }
    const auto value_of = [&](Expr s) {
      for (size_t n = 0; n < c.kernel->sizes.size(); ++n)
        if (c.kernel->sizes[n] == s) return c.sizes[n];
      return int64_t{0};
    };
    EXPECT_TRUE(host.run(i, *c.kernel, pointers, c.sizes, evaluate(loops::launched_items(*c.kernel), value_of)));
    for (size_t b = 0; b < c.arrays.size(); ++b) {
      const Array& got = c.arrays[b];
      const int64_t n = expected[b].size();
      int64_t wrong = 0;
      for (int64_t at = 0; at < n && wrong < 3; ++at) {
        if (close(got.dtype, got.at(at), expected[b].at(at), c.ulps, c.absolute)) continue;
        ++wrong;
        ADD_FAILURE() << "buffer " << b << " at " << at << ": " << show(got.dtype, got.at(at)) << ", not "
                      << show(got.dtype, expected[b].at(at));
      }
      for (size_t at = got.bytes.size() - 64; at < got.bytes.size(); ++at)
        ASSERT_EQ(got.bytes[at], 0x5a) << "buffer " << b << " is written past its end";
    }
  }
}

// The kernels of a plan for a GPU, each on random elements of its own.
inline void add_plan(std::vector<Case>& cases, const graph::Graph& graph, double ulps, double absolute = 1e-6,
                     int arch = 90) {
  schedule::Options options;
  options.target = machine::cuda_target_of(arch);
  const schedule::Plan plan = schedule::make_plan(graph, options);
  for (const schedule::Step& s : plan.steps) {
    const auto* k = std::get_if<schedule::KernelStep>(&s);
    if (!k) continue;
    Case c{k->text, loops::parse_kernel(k->text), {}, {}, ulps, absolute};
    for (size_t b = 0; b < k->args.size(); ++b) {
      const graph::TensorType& t = plan.buffers[static_cast<size_t>(k->args[b].buffer)].type;
      c.arrays.push_back(random_array(t.dtype, hint(graph::numel(t)), static_cast<unsigned>(b + 1)));
      if (t.dtype != DType::I64) continue;
      for (int64_t i = 0; i < c.arrays.back().size(); ++i) c.arrays.back().set(i, loops::from_integer(t.dtype, i % 5));
    }
    for (Expr e : k->sizes) c.sizes.push_back(hint(e));
    cases.push_back(std::move(c));
  }
}

inline void add_plan(std::vector<Case>& cases, const std::string& text, double ulps, double absolute = 1e-6,
                     int arch = 90) {
  add_plan(cases, *on_device("cuda:0", text), ulps, absolute, arch);
}

// For operators that passes make from others.
inline void add_decomposed(std::vector<Case>& cases, const std::string& text, double ulps, double absolute = 1e-6,
                           int arch = 90) {
  const auto g = on_device("cuda:0", text);
  const Options user;
  graph::run_passes(*g, {.options = user, .device = DeviceType::CUDA}, true);
  const size_t before = cases.size();
  add_plan(cases, *g, ulps, absolute, arch);
  ASSERT_GT(cases.size(), before);
}

// Every other schedule of the kernels, on the same elements.
inline void add_other_schedules(std::vector<Case>& cases) {
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i)
    for (const auto& other : schedule::alternatives(*cases[i].kernel, machine::cuda_target_of(90))) {
      const std::string text = print(*other);
      cases.push_back(
          {text, loops::parse_kernel(text), cases[i].arrays, cases[i].sizes, cases[i].ulps, cases[i].absolute});
    }
}

}  // namespace vesta::codegen::testing
