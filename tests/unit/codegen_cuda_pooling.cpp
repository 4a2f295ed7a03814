// Gradients of maximum pooling in kernels for a GPU: each element adds up the gradients of the windows that chose it.
#include "cuda_cases.h"

namespace vesta::codegen::testing {
namespace {

constexpr int64_t kBatch = 2, kChannels = 16;

struct Windows {
  int64_t kernel, stride, padding, dilation, height, width, rows, columns;  // sizes of the operand and of the result
};
// Windows that overlap, lie side by side, leave gaps, and are dilated.
constexpr Windows kWindows[] = {{3, 2, 1, 1, 17, 20, 9, 10},
                                {2, 2, 0, 1, 16, 18, 8, 9},
                                {2, 3, 0, 1, 17, 20, 6, 7},
                                {5, 1, 2, 1, 9, 8, 9, 8},
                                {3, 2, 1, 2, 21, 18, 10, 8}};

std::string type(std::string_view dtype, int64_t height, int64_t width, bool last) {
  std::string out = fmt::format("{}[{}, {}, {}, {}]", dtype, kBatch, kChannels, height, width);
  if (last) out += fmt::format("{{{}, 1, {}, {}}}", height * width * kChannels, width * kChannels, kChannels);
  return out + "@D";
}

// `ones`: the kernel computes the gradient of the result instead of reading it.
std::string text_of(const Windows& w, std::string_view dtype, bool last, bool ones) {
  const std::string grad = type(dtype, w.rows, w.columns, last), x = type(dtype, w.height, w.width, last);
  std::string out = fmt::format("input %0 : {} = argument \"places\" aligned 16\ninput %1 : {} = argument \"x\"\n",
                                type("i64", w.rows, w.columns, last), x);
  out += ones ? fmt::format("%2 : {} = aten::ones_like(%0, dtype=dtype.{})\n", grad, dtype)
              : fmt::format("input %2 : {} = argument \"grad\" aligned 16\n", grad);
  return out + fmt::format(
                   "%3 : {0} = aten::max_pool2d_with_indices_backward(%2, %1, [{1}, {1}], [{2}, {2}], "
                   "[{3}, {3}], [{4}, {4}], false, %0)\noutput %3\n",
                   x, w.kernel, w.stride, w.padding, w.dilation);
}

template <class Property>
Array* find(Case& c, Property&& property) {
  for (size_t b = 0; b < c.arrays.size(); ++b)
    if (property(c.kernel->buffers[b])) return &c.arrays[b];
  return nullptr;
}

// Lets each window choose one of its elements, and returns the gradient.
std::vector<double> choose(Case& c, const Windows& w, bool last) {
  Array& places = *find(c, [](const auto& b) { return b.dtype == DType::I64; });
  const Array* const grad = find(c, [](const auto& b) { return b.dtype != DType::I64 && !b.written; });
  const auto offset = [&](int64_t plane, int64_t at, int64_t size) {
    return last ? (plane / kChannels * size + at) * kChannels + plane % kChannels : plane * size + at;
  };
  std::mt19937 random(7);
  const auto inside = [&](int64_t window, int64_t size) {
    for (;;) {
      const int64_t i = window * w.stride - w.padding + static_cast<int64_t>(random()) % w.kernel * w.dilation;
      if (i >= 0 && i < size) return i;
    }
  };
  std::vector<double> out(static_cast<size_t>(kBatch * kChannels * w.height * w.width));
  for (int64_t plane = 0; plane < kBatch * kChannels; ++plane)
    for (int64_t at = 0; at < w.rows * w.columns; ++at) {
      const int64_t chosen = inside(at / w.columns, w.height) * w.width + inside(at % w.columns, w.width);
      const int64_t window = offset(plane, at, w.rows * w.columns);
      places.set(window, loops::from_integer(DType::I64, chosen));
      out[static_cast<size_t>(offset(plane, chosen, w.height * w.width))] += grad ? grad->at(window).f : 1;
    }
  return out;
}

TEST(CudaPooling, GradientsGoToTheChosenElements) {
  std::vector<Case> cases;
  for (const Windows& w : kWindows)
    for (const bool last : {false, true})
      for (const auto& [dtype, ones] : {std::pair("f32", false), {"bf16", false}, {"f32", true}}) {
        const size_t before = cases.size();
        add_plan(cases, text_of(w, dtype, last, ones), 4, std::string_view(dtype) == "f32" ? 1e-5 : 4e-2);
        ASSERT_EQ(cases.size(), before + 1);
        Case& c = cases.back();
        const std::vector<double> wanted = choose(c, w, last);
        std::vector<Array> found = c.arrays;
        run_interpreter(*c.kernel, found, c.sizes);
        for (size_t b = 0; b < found.size(); ++b) {
          if (!c.kernel->buffers[b].written) continue;
          for (size_t i = 0; i < wanted.size(); ++i)
            EXPECT_NEAR(found[b].at(static_cast<int64_t>(i)).f, wanted[i], c.absolute) << c.name << " at " << i;
        }
      }
  expect_same(std::move(cases));
}

// A CPU calls ATen, and so does a GPU in deterministic mode, where ATen's operator raises an error or warns.
TEST(CudaPooling, OtherGradientsAreCalls) {
  const auto is_call = [](std::string_view device, bool deterministic) {
    schedule::Options options;
    options.deterministic = deterministic;
    if (device != "cpu") options.target = machine::cuda_target_of(90);
    const schedule::Plan plan =
        schedule::make_plan(*on_device(device, text_of(kWindows[0], "f32", false, false)), options);
    return plan.steps.size() == 1 && std::holds_alternative<schedule::ExternStep>(plan.steps[0]);
  };
  EXPECT_TRUE(is_call("cpu", false));
  EXPECT_FALSE(is_call("cuda:0", false));
  EXPECT_TRUE(is_call("cuda:0", true));
}

}  // namespace
}  // namespace vesta::codegen::testing
