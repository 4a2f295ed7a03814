// Calls in a capture of the caller's, with the fake driver: what the caller's graph needs lives as long as the graph.
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include "machine/cuda/graph.h"
#include "recorded_program.h"
#include "runtime/cuda/torch_cuda.h"

namespace {

using namespace vesta;
using namespace vesta::testing;

constexpr int64_t kSide = 4;

// A program of one kernel, out = a, which only this program has.
GpuProgram copying(const std::string& kernel) {
  GpuProgram p(kSide);
  const int x = p.input(), y = p.output();
  p.mix(x, x, y);
  auto& launch = std::get<artifact::Launch>(p.a.steps[0]);
  launch.object = gpu_object(kernel, 5, [](const uint64_t* v) {
    std::memcpy(reinterpret_cast<void*>(v[2]), reinterpret_cast<const void*>(v[0]), v[3] * sizeof(float));
  });
  launch.name = kernel;
  p.show(y);
  return p;
}

at::Tensor call(const runtime::Executable& e, const at::Tensor& x) {
  std::vector<c10::IValue> out;
  e.run(runtime::CallInputs{std::vector<at::Tensor>{x}, {}, {}}, out);
  return out.at(0).toTensor();
}

// Code that nothing needs any more is unloaded.
void load_another() { const runtime::Executable e(copying("another").finish()); }

TEST(CallersCapture, CodeIsUnloadedAfterItsLastProgram) {
  {
    const runtime::Executable e(copying("alone").finish()), again(copying("alone").finish());
  }
  EXPECT_EQ(gpu::libraries_of("alone"), 1);  // unloading waits for the device, at a moment that suits
  load_another();
  EXPECT_EQ(gpu::libraries_of("alone"), 0);
}

TEST(CallersCapture, CodeLivesAsLongAsTheGraph) {
  const auto user = machine::make_capture_stream();
  std::unique_ptr<machine::DeviceGraph> graph;
  GpuProgram p = copying("captured");
  at::Tensor x = p.tensor(3), y;
  {
    const runtime::Executable e(p.finish());
    user->begin();
    {
      const c10::StreamGuard on(runtime::torch_cuda()->stream(user->native(), 0));
      y = call(e, x);
      load_another();  // not now: the stream is captured
    }
    graph = user->end();
  }
  load_another();
  EXPECT_EQ(gpu::libraries_of("captured"), 1);
  graph->launch(nullptr);
  EXPECT_TRUE(on_cpu(y).equal(on_cpu(x)));
  graph.reset();
  EXPECT_EQ(gpu::libraries_of("captured"), 1);  // the thread that ends the graph's objects may not unload it
  load_another();
  EXPECT_EQ(gpu::libraries_of("captured"), 0);
}

TEST(CallersCapture, AnAbandonedCaptureKeepsNothing) {
  const auto user = machine::make_capture_stream();
  GpuProgram p = copying("abandoned");
  {
    const runtime::Executable e(p.finish());
    user->begin();
    const c10::StreamGuard on(runtime::torch_cuda()->stream(user->native(), 0));
    call(e, p.tensor(1));
  }
  load_another();
  EXPECT_EQ(gpu::libraries_of("abandoned"), 1);
  user->abandon();
  load_another();
  EXPECT_EQ(gpu::libraries_of("abandoned"), 0);
}

}  // namespace
