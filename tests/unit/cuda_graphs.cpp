// The kernels that a GPU would run for graphs of whole models: compiled for several generations, within the bounds of a
// multiprocessor, and run on the CPU against the interpreter where they are small. The graphs are the texts *.txt in
// the folder VESTA_CUDA_GRAPHS, traced on the CPU; tests/programs/test_cuda_kernels.py makes them.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "codegen_run.h"
#include "cubin.h"
#include "cuda_host.h"
#include "graph/passes/pass.h"
#include "graph/text.h"
#include "machine/cuda/code.h"
#include "machine/cuda/device_target.h"
#include "schedule/alternatives.h"
#include "schedule/plan.h"

namespace vesta::codegen::testing {
namespace {

constexpr int64_t kRunElements = 100'000;  // larger kernels are compiled alone
constexpr int64_t kScheduleElements = 20'000;
constexpr size_t kRunKernels = 60;  // of a model
// With every schedule of each kernel: $VESTA_CUDA_SCHEDULES names how many kernels.
size_t kernels_with_schedules() {
  const char* given = std::getenv("VESTA_CUDA_SCHEDULES");
  return given ? std::strtoul(given, nullptr, 10) : 0;
}

std::unique_ptr<graph::Graph> read(const std::filesystem::path& path) {
  std::ifstream in(path);
  auto g = graph::parse(std::string(std::istreambuf_iterator<char>(in), {}));
  const Device gpu{DeviceType::CUDA, 0};
  for (const graph::Input& i : g->inputs) i.value->type.device = gpu;
  g->for_each_node([&](graph::Node* n) {
    for (graph::Value* v : n->results)
      if (v) v->type.device = gpu;
    // There batch norm returns statistics outside of training too.
    if (n->op->name.find("batch_norm") != std::string::npos)
      for (size_t i = 1; i < n->results.size() && i < 3; ++i)
        if (graph::Value* v = n->results[i]; v && v->type.sizes.size() == 1 && v->type.sizes[0].is_constant(0))
          v->type.sizes[0] = n->input(0)->type.sizes.at(1);
    for (size_t i = 0; i < n->args().size(); ++i)
      if (std::holds_alternative<Device>(n->args()[i])) g->set_arg(n, i, gpu);
  });
  for (graph::Output& o : g->outputs) o.type.device = gpu;
  return g;
}

struct Kernel {
  std::string text, name;
  std::unique_ptr<loops::Kernel> kernel;
  std::vector<Array> arrays;
  std::vector<int64_t> starts;  // byte offset of the kernel's data in each array
  std::vector<int64_t> sizes;
  int64_t elements = 1;
};

bool is_half(DType t) { return t == DType::F16 || t == DType::BF16; }

bool names_places(const loops::Kernel& k) {
  return std::any_of(k.instrs.begin(), k.instrs.end(),
                     [](const loops::Instr& i) { return i.kind == loops::InstrKind::Indirect; });
}

// The distinct kernels of the graph's plan.
std::vector<Kernel> kernels_of(const std::filesystem::path& path, int* steps) {
  const auto g = read(path);
  const Options user;
  graph::run_passes(*g, {.options = user, .device = DeviceType::CUDA}, true);
  schedule::Options options;
  options.target = machine::cuda_target_of(90);
  const schedule::Plan plan = schedule::make_plan(*g, options);
  *steps = static_cast<int>(plan.steps.size());
  std::vector<Kernel> out;
  std::set<std::string> known;
  for (const schedule::Step& s : plan.steps) {
    const auto* k = std::get_if<schedule::KernelStep>(&s);
    if (!k || !known.insert(k->text).second) continue;
    Kernel one{k->text, fmt::format("{}_{}", path.stem().string(), out.size()), loops::parse_kernel(k->text), {}, {},
               {}};
    for (const loops::Range& r : one.kernel->ranges) one.elements *= std::max<int64_t>(1, hint(r.extent));
    for (size_t b = 0; b < k->args.size() && one.elements <= kRunElements; ++b) {
      const schedule::KernelArg& arg = k->args[b];
      const graph::TensorType& t = plan.buffers[static_cast<size_t>(arg.buffer)].type;
      int64_t last = 0;
      for (size_t d = 0; d < t.sizes.size(); ++d)
        last += std::max<int64_t>(0, hint(t.sizes[d]) - 1) * std::max<int64_t>(0, hint(t.strides[d]));
      // Positions in tables are 0, which every table has.
      const DType dtype = real_of(t.dtype);
      const int64_t n = (last + 1) * (is_complex(t.dtype) ? 2 : 1);
      one.arrays.push_back(dtype == DType::I64 && names_places(*one.kernel)
                               ? make_array(dtype, n)
                               : random_array(dtype, n, static_cast<unsigned>(b + 1)));
      one.starts.push_back(hint(arg.offset) * element_size(dtype));
    }
    for (Expr e : k->sizes) one.sizes.push_back(hint(e));
    out.push_back(std::move(one));
  }
  return out;
}

void check_code(const std::vector<Kernel>& kernels) {
  for (const int arch : {80, 90, 100, 999}) {
    std::vector<Request> requests;
    for (const Kernel& k : kernels) requests.push_back({k.text, k.name});
    const std::vector<Result> results = compile(requests, machine::cuda_target_of(arch), {});
    if (arch == 999) continue;  // PTX, for its driver
    for (size_t i = 0; i < results.size(); ++i) {
      SCOPED_TRACE(fmt::format("sm_{} {}\n{}", arch, kernels[i].name, kernels[i].text));
      const auto use = vesta::testing::use_of(machine::read_cuda_code(results[i].object->bytes, false).cubin);
      // The angles of trigonometry are reduced in memory where they are large.
      bool angles = false;
      for (const loops::Instr& in : kernels[i].kernel->instrs)
        angles |= in.kind == loops::InstrKind::Compute &&
                  (in.prim == Prim::Sin || in.prim == Prim::Cos || in.prim == Prim::Tan);
      EXPECT_LE(use.frame, angles ? 64u : 0u);
      EXPECT_LE(use.registers * kernels[i].kernel->threads.block, 64 << 10);
      EXPECT_LE(use.shared, 48u << 10);
    }
  }
}

void check_results(std::vector<Kernel>& kernels, size_t most = kRunKernels) {
  std::vector<Kernel*> small;
  std::vector<const loops::Kernel*> texts;
  for (Kernel& k : kernels) {
    if (k.elements > kRunElements || small.size() == most) continue;
    small.push_back(&k);
    texts.push_back(k.kernel.get());
  }
  if (small.empty()) return;
  vesta::testing::HostKernels host(texts);
  for (size_t i = 0; i < small.size(); ++i) {
    Kernel& k = *small[i];
    SCOPED_TRACE(fmt::format("{}\n{}", k.name, k.text));
    std::vector<Array> expected = k.arrays;
    const auto pointers_to = [&](std::vector<Array>& arrays) {
      std::vector<void*> pointers;
      for (size_t b = 0; b < arrays.size(); ++b) pointers.push_back(arrays[b].bytes.data() + k.starts[b]);
      return pointers;
    };
    const auto value_of = [&](Expr s) {
      for (size_t n = 0; n < k.kernel->sizes.size(); ++n)
        if (k.kernel->sizes[n] == s) return k.sizes[n];
      return int64_t{0};
    };
    bool refused = false;  // a place that there is not, for these random positions
    try {
      loops::interpret(*k.kernel, pointers_to(expected), k.sizes, 0, evaluate(loops::work_items(*k.kernel), value_of));
    } catch (const InternalError& e) {
      refused = std::string(e.what()).find("which there is not") != std::string::npos;
      if (!refused) throw;
    }
    EXPECT_EQ(refused, !host.run(i, *k.kernel, pointers_to(k.arrays), k.sizes,
                                 evaluate(loops::launched_items(*k.kernel), value_of)));
    // A half on the way may be rounded to its neighbour.
    const bool halves = std::any_of(k.kernel->instrs.begin(), k.kernel->instrs.end(),
                                    [](const loops::Instr& in) { return is_half(in.dtype); });
    // A norm of equal elements divides what their sum was rounded by by the root of its epsilon.
    const bool norms = std::any_of(k.kernel->instrs.begin(), k.kernel->instrs.end(), [](const loops::Instr& in) {
      return in.kind == loops::InstrKind::Compute && in.prim == Prim::Rsqrt;
    });
    for (size_t b = 0; b < expected.size() && !refused; ++b) {
      const bool half = is_half(k.arrays[b].dtype);
      // Sums cancel: what is small beside the largest element may be all error.
      double largest = 0;
      for (int64_t at = 0; is_float(expected[b].dtype) && at < expected[b].size(); ++at)
        if (const double v = std::fabs(expected[b].at(at).f); std::isfinite(v)) largest = std::max(largest, v);
      const double absolute = (half ? 1e-2 : halves ? 1e-3 : norms ? 2e-4 : 2e-5) * std::max(1.0, largest);
      int64_t wrong = 0;
      for (int64_t at = 0; at < expected[b].size(); ++at)
        wrong += !close(expected[b].dtype, k.arrays[b].at(at), expected[b].at(at), half ? 2 : 2000, absolute);
      EXPECT_EQ(wrong, 0) << "elements of buffer " << b;
    }
  }
}

// The same kernels as threads might share them otherwise. Those of few elements: a block of 1024 threads takes a while.
std::vector<Kernel> other_schedules(const std::vector<Kernel>& kernels) {
  std::vector<Kernel> out;
  size_t looked_at = 0;
  for (const Kernel& k : kernels) {
    if (k.elements > kScheduleElements || looked_at == kernels_with_schedules()) continue;
    ++looked_at;
    for (const auto& other : schedule::alternatives(*k.kernel, machine::cuda_target_of(90))) {
      const std::string text = print(*other);
      out.push_back({text, fmt::format("{}_other{}", k.name, out.size()), loops::parse_kernel(text), k.arrays, k.starts,
                     k.sizes, k.elements});
    }
  }
  return out;
}

TEST(CudaGraphs, KernelsOfModels) {
  const char* folder = std::getenv("VESTA_CUDA_GRAPHS");
  ASSERT_TRUE(folder) << "VESTA_CUDA_GRAPHS names no folder";
  // For operators that have no row.
  std::ifstream schemas(std::filesystem::path(folder) / "operators");
  for (std::string schema; std::getline(schemas, schema);) graph::declare_op(schema);
  int graphs = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".txt") continue;
    SCOPED_TRACE(file.path().string());
    ++graphs;
    int steps = 0;
    std::vector<Kernel> kernels = kernels_of(file.path(), &steps);
    fmt::print("{}: {} steps, {} kernels\n", file.path().stem().string(), steps, kernels.size());
    std::fflush(stdout);
    check_code(kernels);
    check_results(kernels);
    std::vector<Kernel> others = other_schedules(kernels);
    if (others.empty()) continue;
    fmt::print("{} other schedules\n", others.size());
    std::fflush(stdout);
    check_code(others);
    check_results(others, others.size());
  }
  EXPECT_GT(graphs, 0);
}

}  // namespace
}  // namespace vesta::codegen::testing
