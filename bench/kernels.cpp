// Measures one kernel at a time: compile time, run time, and bytes per second against a copy on this machine.
//
//   kernels                      the built-in kernels
//   kernels FILE [s0=128 ...]    a kernel text, its size symbols replaced by numbers
//   kernels --list | --dump DIR | --only NAME | --compiles N
#include <fmt/format.h>
#include <time.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "codegen/codegen.h"
#include "loops/kernel.h"
#include "machine/load.h"
#include "schedule/vectors.h"
#include "vesta/error.h"

namespace {

using namespace vesta;
// Processor time of this thread, which excludes what other programs on the machine take.
double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double seconds_since(double start) { return now() - start; }

struct Named {
  std::string name, text;
};

std::string replaced(std::string s, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = s.find(from, at)) != std::string::npos; at += to.size()) s.replace(at, from.size(), to);
  return s;
}

std::vector<Named> built_in() {
  std::string rows =
      "kernel\nrange p0 parallel ROWS\nrange i0 inner COLS\nvector i0\nbuffer b0 TYPE read\nbuffer b1 TYPE write\n";
  std::string load = "load TYPE b0[COLS*p0 + i0]\n";
  std::string softmax =
      rows + "row r0 f32\nstage loop\n  %0 = " + load +
      "  %1 = cast f32 %0\n  %2 = accumulate f32 max %1\n  rowstore f32 r0 %1\n"
      "stage loop\n  %4 = rowload f32 r0\n  %5 = result f32 %2\n  %6 = sub f32 %4 %5\n  %7 = exp f32 %6\n  %8 = "
      "accumulate f32 sum %7\n"
      "  rowstore f32 r0 %7\nstage\n  %9 = result f32 %8\n  %10 = const f32 1\n  %11 = div f32 %10 %9\n"
      "stage loop\n  %12 = rowload f32 r0\n  %13 = mul f32 %12 %11\n  %14 = cast TYPE %13\n  store TYPE b1[COLS*p0 + "
      "i0] %14\n";
  std::string layer_norm = rows + "buffer b2 TYPE read\nbuffer b3 TYPE read\nrow r0 f32\nstage loop\n  %0 = " + load +
                           "  %1 = cast f32 %0\n  %2 = accumulate f32 sum %1\n  rowstore f32 r0 %1\nstage\n  %3 = "
                           "result f32 %2\n  %4 = const f32 COLS\n"
                           "  %5 = div f32 %3 %4\nstage loop\n  %6 = rowload f32 r0\n  %7 = sub f32 %6 %5\n  %8 = mul "
                           "f32 %7 %7\n  %9 = accumulate f32 sum %8\n"
                           "stage\n  %10 = result f32 %9\n  %11 = div f32 %10 %4\n  %12 = const f32 1e-5\n  %13 = add "
                           "f32 %11 %12\n  %14 = rsqrt f32 %13\n"
                           "stage loop\n  %15 = rowload f32 r0\n  %16 = sub f32 %15 %5\n  %17 = mul f32 %16 %14\n  %18 "
                           "= load TYPE b2[i0]\n  %19 = cast f32 %18\n"
                           "  %20 = mul f32 %17 %19\n  %21 = load TYPE b3[i0]\n  %22 = cast f32 %21\n  %23 = add f32 "
                           "%20 %22\n  %24 = cast TYPE %23\n"
                           "  store TYPE b1[COLS*p0 + i0] %24\n";
  std::string row_sum = rows + "stage loop\n  %0 = " + load +
                        "  %1 = cast f32 %0\n  %2 = accumulate f32 sum %1\nstage\n  %3 = result f32 %2\n"
                        "  %4 = cast TYPE %3\n  store TYPE b1[p0] %4\n";
  std::string column_sum =
      "kernel\nrange p0 parallel COLS\nrange i0 inner ROWS\nvector p0\nblock 128\nbuffer b0 TYPE read\nbuffer b1 TYPE "
      "write\n"
      "stage loop\n  %0 = load TYPE b0[COLS*i0 + p0]\n  %1 = cast f32 %0\n  %2 = accumulate f32 sum %1\nstage\n  %3 = "
      "result f32 %2\n"
      "  %4 = cast TYPE %3\n  store TYPE b1[p0] %4\n";
  std::string flat =
      "kernel\nrange p0 parallel TOTAL\nvector p0\nblock 1024\nbuffer b0 TYPE read\nbuffer b1 TYPE read\nbuffer b2 "
      "TYPE read\n"
      "buffer b3 TYPE write\nstage\n";
  std::string add =
      flat +
      "  %0 = load TYPE b0[p0]\n  %1 = cast f32 %0\n  %2 = load TYPE b1[p0]\n  %3 = cast f32 %2\n  %4 = add f32 %1 %3\n"
      "  %5 = cast TYPE %4\n  store TYPE b3[p0] %5\n";
  std::string gelu =
      flat +
      "  %0 = load TYPE b0[p0]\n  %1 = cast f32 %0\n  %2 = const f32 0.7071067811865476\n  %3 = mul f32 %1 %2\n"
      "  %4 = erf f32 %3\n  %5 = const f32 1\n  %6 = add f32 %4 %5\n  %7 = const f32 0.5\n  %8 = mul f32 %1 %7\n  %9 = "
      "mul f32 %8 %6\n"
      "  %10 = load TYPE b1[p0]\n  %11 = cast f32 %10\n  %12 = mul f32 %9 %11\n  %13 = load TYPE b2[p0]\n  %14 = cast "
      "f32 %13\n"
      "  %15 = add f32 %12 %14\n  %16 = cast TYPE %15\n  store TYPE b3[p0] %16\n";
  auto unary = [&](const std::string& f) {
    return flat + "  %0 = load TYPE b0[p0]\n  %1 = cast f32 %0\n  %2 = " + f +
           " f32 %1\n  %3 = cast TYPE %2\n  store TYPE b3[p0] %3\n";
  };
  std::string transpose_add =
      "kernel\nrange p0 parallel ROWS\nrange p1 parallel COLS\nvector p1\nblock COLS\nbuffer b0 TYPE read\n"
      "buffer b1 TYPE read\nbuffer b2 TYPE write\nstage\n  %0 = load TYPE b0[COLS*p0 + p1]\n  %1 = load TYPE "
      "b1[ROWS*p1 + p0]\n"
      "  %2 = cast f32 %0\n  %3 = cast f32 %1\n  %4 = add f32 %2 %3\n  %5 = cast TYPE %4\n  store TYPE b2[COLS*p0 + "
      "p1] %5\n";
  std::vector<Named> all;
  for (const char* type : {"f32", "bf16"}) {
    auto make = [&](const std::string& name, std::string text) {
      text = replaced(replaced(replaced(replaced(text, "TOTAL", "4194304"), "ROWS", "4096"), "COLS", "1024"), "TYPE",
                      type);
      all.push_back({name + "_" + type, text});
    };
    make("add", add);
    make("exp", unary("exp"));
    make("tanh", unary("tanh"));
    make("sigmoid", unary("sigmoid"));
    make("log", unary("log"));
    make("sin", unary("sin"));
    make("gelu_mul_add", gelu);
    make("softmax", softmax);
    make("layer_norm", layer_norm);
    make("row_sum", row_sum);
    make("column_sum", column_sum);
    make("transpose_add", transpose_add);
  }
  return all;
}

double copy_bandwidth() {
  static const double best = [] {
    size_t n = 64u << 20;
    std::vector<char> a(n, 1), b(n, 2);
    double seconds = 1e9;
    for (int i = 0; i < 8; ++i) {
      auto t = now();
      std::memcpy(b.data(), a.data(), n);
      seconds = std::min(seconds, seconds_since(t));
    }
    return 2 * static_cast<double>(n) / seconds;
  }();
  return best;
}

void run(const Named& named, const std::string& dump, int compiles) {
  auto kernel = loops::parse_kernel(named.text);
  // Built-in kernels specify no lanes; dumped ones do.
  if (kernel->lanes == 1) schedule::choose_vectors(*kernel, host_target().vector_bytes);
  loops::verify(*kernel);
  codegen::CompileOptions options;
  options.dump_dir = dump;
  options.workers = 1;
  std::string text = loops::print(*kernel);
  // The code is freed and compiled again, because the first compile also pays for what a process needs once.
  double compile_ms = 1e9;
  std::shared_ptr<const machine::Code> code;
  for (int i = 0; i < compiles; ++i) {
    code.reset();
    double t = now();
    code = machine::load(*codegen::compile({{text, named.name}}, host_target(), options)[0].object);
    compile_ms = std::min(compile_ms, 1e3 * seconds_since(t));
  }

  // Each buffer is as long as its largest index. Each buffer's bytes are counted once.
  std::vector<int64_t> lengths(kernel->buffers.size(), 0);
  for (const loops::Instr& i : kernel->instrs) {
    if (i.buffer < 0) continue;
    int64_t& n = lengths[static_cast<size_t>(i.buffer)];
    n = std::max(n, upper_bound(i.index).value_or(0) + 1);
  }
  std::vector<std::vector<char>> memory;
  std::vector<void*> pointers;
  double bytes = 0;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (size_t b = 0; b < lengths.size(); ++b) {
    DType type = kernel->buffers[b].dtype;
    size_t n = static_cast<size_t>(lengths[b] * element_size(type));
    memory.emplace_back(n + 64);
    for (size_t i = 0; i + 4 <= n; i += 4) {
      float v = normal(random);
      if (type == DType::BF16) {
        std::memcpy(memory.back().data() + i, reinterpret_cast<char*>(&v) + 2, 2);
        std::memcpy(memory.back().data() + i + 2, reinterpret_cast<char*>(&v) + 2, 2);
      } else if (is_float(type)) {
        std::memcpy(memory.back().data() + i, &v, 4);
      }
    }
    pointers.push_back(memory.back().data());
    bytes += static_cast<double>(n);
  }
  int64_t items = evaluate(loops::work_items(*kernel), [](Expr) { return int64_t{0}; });
  std::vector<char> scratch(
      static_cast<size_t>(evaluate(loops::scratch_bytes(*kernel), [](Expr) { return int64_t{0}; })) + 64);
  void* row = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) & ~uintptr_t{63});
  double best = 1e9;
  for (int i = 0; i < 12; ++i) {
    auto start = now();
    code->entry()(pointers.data(), nullptr, row, 0, items);
    best = std::min(best, seconds_since(start));
  }
  double rate = bytes / best;
  fmt::print(
      "{:22} compile {:6.2f} ms  code {:6} B  run {:8.3f} ms  {:6.1f} GB/s  {:4.2f}x the time to copy its bytes\n",
      named.name, compile_ms, code->bytes(), 1e3 * best, rate / 1e9, copy_bandwidth() / rate);
}

}  // namespace

int main(int argc, char** argv) {
  std::string dump, only, file;
  int compiles = 5;
  std::map<std::string, std::string> sizes;
  for (int i = 1; i < argc; ++i) {
    std::string a = argv[i];
    if (a == "--list") {
      for (const Named& n : built_in()) fmt::print("{}\n", n.name);
      return 0;
    } else if (a == "--dump" && i + 1 < argc) {
      dump = argv[++i];
    } else if (a == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else if (a == "--compiles" && i + 1 < argc) {
      compiles = std::stoi(argv[++i]);
    } else if (size_t eq = a.find('='); eq != std::string::npos) {
      sizes[a.substr(0, eq)] = a.substr(eq + 1);
    } else if (a[0] != '-') {
      file = a;
    } else {
      fmt::print("kernels [FILE s0=128 ...] [--only NAME] [--dump DIR] [--compiles N] [--list]\n");
      return a == "--help" ? 0 : 2;
    }
  }
  try {
    fmt::print("{}; copy {:.1f} GB/s on one thread\n", host_target().cpu, copy_bandwidth() / 1e9);
    if (!file.empty()) {
      std::stringstream text;
      text << std::ifstream(file).rdbuf();
      std::string s = text.str();
      for (const auto& [name, value] : sizes) {
        size_t at = s.find("size " + name);
        if (at != std::string::npos) s.erase(at, s.find('\n', at) - at);
        s = replaced(s, name, value);
      }
      run({file, s}, dump, compiles);
      return 0;
    }
    for (const Named& n : built_in()) {
      if (only.empty() || n.name.find(only) != std::string::npos) run(n, dump, compiles);
    }
  } catch (const vesta::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
