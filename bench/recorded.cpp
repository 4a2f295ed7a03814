// The CPU time in microseconds of a call that launches a recorded program, in a loop and after other work has used the
// caches. The tests' driver replaces a GPU's: launching a graph does nothing there.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "recorded_program.h"

namespace {

using namespace vesta;
using namespace vesta::testing;

constexpr int kLayers = 32;
constexpr int64_t kSide = 8;

struct Program {
  std::string name;
  std::unique_ptr<runtime::Executable> executable;
  std::vector<at::Tensor> inputs;
};

// A decoder with two norms, seven products and seven kernels per layer. `caches`: each layer writes two inputs.
Program decoder(bool caches) {
  GpuProgram p(kSide);
  Program out{caches ? "288 weights, 64 written caches" : "288 weights", nullptr, {}};
  int x = p.input();
  out.inputs.push_back(p.tensor(1));
  const auto weight = [&] {
    out.inputs.push_back(p.tensor(0.01F));
    return p.input();
  };
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int half = 0; half < 2; ++half) {
      const int norm = p.arena();
      p.mix(x, weight(), norm);
      x = norm;
      for (int product = 0; product < 3 + half; ++product) {
        const int made = p.returned(), next = p.arena();
        p.mm(x, weight(), made);
        p.mix(made, x, next);
        x = next;
      }
      if (!caches) continue;
      const int cache = weight();
      p.mix(x, x, cache);
      p.written(cache);
    }
  }
  const int y = p.output();
  p.mix(x, x, y);
  p.show(y);
  out.executable = std::make_unique<runtime::Executable>(p.finish());
  return out;
}

double microseconds(const Program& p, bool fresh, bool evict, int calls) {
  static std::vector<char> other(size_t{64} << 20);
  std::vector<double> times;
  std::vector<c10::IValue> outputs;
  std::vector<at::Tensor> inputs = p.inputs;
  at::Tensor held[2] = {inputs[0], inputs[0].clone()};
  for (int i = 0; i < calls; ++i) {
    if (fresh) inputs[0] = held[i % 2];
    if (evict)
      for (size_t at = 0; at < other.size(); at += 64) ++other[at];
    outputs.clear();
    const auto begin = std::chrono::steady_clock::now();
    const runtime::CallInputs in{inputs, {}, {}};
    if (!p.executable->accepts(in)) return -1;
    p.executable->run(in, outputs);
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main() {
  gpu::set_running(false);
  for (const bool caches : {false, true}) {
    const Program p = decoder(caches);
    microseconds(p, false, false, 10);
    const int64_t before = gpu::calls().changed_nodes;
    const double loop = microseconds(p, false, false, 5000), cold = microseconds(p, false, true, 60);
    const int64_t changed = gpu::calls().changed_nodes - before;
    microseconds(p, true, false, 10);
    const double fresh = microseconds(p, true, false, 5000), fresh_cold = microseconds(p, true, true, 60);
    const auto graphs = *p.executable->graphs();
    fmt::print("{}: {} nodes in {} graphs {}, nodes changed a call {:.2f}\n", p.name, graphs.nodes, graphs.graphs,
               graphs.why_none, static_cast<double>(changed) / 5060);
    fmt::print("  the same inputs    loop {:7.2f}   evicted {:7.2f}\n", loop, cold);
    fmt::print("  another first one  loop {:7.2f}   evicted {:7.2f}\n", fresh, fresh_cold);
  }
}
