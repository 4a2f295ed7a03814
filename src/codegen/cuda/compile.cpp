// Compiles kernels' texts to code for a GPU through CUDA C++ and NVRTC.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <mutex>

#include "base/compile_memory.h"
#include "base/fault.h"
#include "codegen/batch.h"
#include "codegen/cuda/jit_link.h"
#include "codegen/cuda/memory.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/ptx.h"
#include "codegen/cuda/source.h"
#include "codegen/cuda/toolchain.h"
#include "codegen/generator.h"
#include "machine/cuda/code.h"

namespace vesta::codegen {
namespace {

constexpr int kFirstThatWaits = 90;  // the first generation on which wait_for_earlier_kernels (prelude) waits

// The 90 in "sm_90"; 0: the target is not a GPU.
int architecture(const Target& t) {
  int arch = 0;
  const std::string_view name = t.cpu;
  if (!name.starts_with("sm_")) return 0;
  const auto [end, error] = std::from_chars(name.data() + 3, name.data() + name.size(), arch);
  return error == std::errc() && end == name.data() + name.size() ? arch : 0;
}

// NVRTC compiles a few programs of many kernels each. While it parses a text, for about 10 ms however short the text,
// its threads wait for one another; while it optimises, they do not. Each kernel's part of a program's PTX is then made
// machine code in a thread of its own. A thread holds memory of the budget while NVRTC works for it, and waits for no
// other thread meanwhile.
class ToCode {
 public:
  ToCode(const Target& target, const CompileOptions& options)
      : nvrtc_(loaded()),
        dump_dir_(options.dump_dir),
        cancel_(options.cancel),
        budget_(compile_budget(options.memory)),
        arch_(architecture(target)) {
    const std::vector<int> known = nvrtc_.architectures();
    binary_ = std::find(known.begin(), known.end(), arch_) != known.end();
    // For a GPU that NVRTC does not know, the driver compiles the PTX.
    virtual_ = *(std::upper_bound(known.begin(), known.end(), arch_) - 1);
    link_ = JitLink::get(nvrtc_.major());
  }

  void run(std::span<const Wanted> wanted, const Parallel& parallel,
           const std::function<void(size_t, Generated)>& done) const {
    std::vector<std::string> sources, names;
    std::vector<char> multiplies;
    std::vector<int64_t> memory;
    for (const Wanted& w : wanted) {
      const auto kernel = loops::parse_kernel(w.request->text);
      memory.push_back(nvrtc_memory(*kernel));
      CompileMemory(CompileMemory::Part::Generators).require(memory.back(), budget_, "the kernel " + w.request->name);
      sources.push_back(cuda_source(*kernel, w.symbol));
      names.push_back(w.symbol);
      multiplies.push_back(kernel->product.rows > 0);
    }
    // Parsing all programs then takes about as long as optimising one of them.
    auto programs = static_cast<size_t>(std::sqrt(2.0 * static_cast<double>(wanted.size())));
    while (programs < wanted.size() && !all_fit(memory, programs)) ++programs;
    std::vector<std::promise<std::vector<std::string>>> ptx(programs);
    std::vector<std::shared_future<std::vector<std::string>>> parts;
    for (auto& p : ptx) parts.push_back(p.get_future().share());
    // Programs start before the kernels that wait for them.
    parallel(programs + wanted.size(), [&](size_t n) {
      if (n < programs) {
        try {
          if (cancel_) cancel_->check();
          CompileMemory held(CompileMemory::Part::Generators);
          held.take(of_program(memory, n, programs), budget_, "a program of kernels", cancel_);
          ptx[n].set_value(program(sources, names, n, programs));
        } catch (...) {
          ptx[n].set_exception(std::current_exception());
        }
        return;
      }
      if (cancel_) cancel_->check();
      const size_t i = n - programs;
      fault::reached("kernel");
      const KernelSpan span(wanted[i], "compiled");
      const std::string& part = parts[i % programs].get()[i / programs];
      CompileMemory held(CompileMemory::Part::Generators);
      held.take(memory[i], budget_, "the kernel " + wanted[i].request->name, cancel_);
      const std::string cubin = binary_ ? machine_code(part, sources[i], names[i], multiplies[i]) : std::string();
      if (!dump_dir_.empty()) dump(*wanted[i].request, sources[i], cubin, part);
      done(i, {machine::write_cuda_code(binary_ ? arch_ : 0, virtual_ >= kFirstThatWaits, cubin, part), memory[i]});
    });
  }

 private:
  static const Nvrtc& loaded() {
    load_toolchain();
    return *Nvrtc::get();
  }

  // What the n-th program takes, in bytes.
  static int64_t of_program(const std::vector<int64_t>& memory, size_t n, size_t programs) {
    int64_t bytes = 0;
    for (size_t i = n; i < memory.size(); i += programs) bytes += memory[i];
    return bytes;
  }
  bool all_fit(const std::vector<int64_t>& memory, size_t programs) const {
    for (size_t n = 0; n < programs; ++n)
      if (of_program(memory, n, programs) > generator_memory(budget_)) return false;
    return true;
  }

  // The PTX of each kernel in the n-th program, which has every `programs`-th kernel.
  std::vector<std::string> program(const std::vector<std::string>& sources, const std::vector<std::string>& names,
                                   size_t n, size_t programs) const {
    std::string text = kCudaPrelude;
    std::vector<std::string> own;
    for (size_t i = n; i < sources.size(); i += programs) {
      text += sources[i];
      own.push_back(names[i]);
    }
    return split_ptx(nvrtc_.ptx(text, own.front(), virtual_), own);
  }

  // A matrix product uses instructions that no other architecture has, where NVRTC knows this one by its own name. Its
  // PTX does not use them, so that it runs on later GPUs.
  std::string machine_code(const std::string& ptx, const std::string& source, const std::string& name,
                           bool multiplies) const {
    if (const std::string own = fmt::format("sm_{}a", arch_); multiplies && nvrtc_.takes(own))
      return nvrtc_.cubin(kCudaPrelude + source, name, own);
    if (link_)
      if (auto code = link_->cubin(ptx, name, arch_)) return std::move(*code);
    return nvrtc_.cubin(kCudaPrelude + source, name, fmt::format("sm_{}", arch_));
  }

  void dump(const Request& request, const std::string& source, const std::string& cubin, const std::string& ptx) const {
    std::filesystem::create_directories(dump_dir_);
    const std::string path = dump_dir_ + "/" + request.name;
    std::ofstream(path + ".kernel") << request.text;
    std::ofstream(path + ".cu") << kCudaPrelude << source;
    std::ofstream(path + ".ptx") << ptx;
    if (binary_) std::ofstream(path + ".cubin") << cubin;
  }

  const Nvrtc& nvrtc_;
  const JitLink* link_;
  const std::string& dump_dir_;
  const CancelToken* cancel_;
  const int64_t budget_;
  int arch_, virtual_;
  bool binary_;
};

}  // namespace

bool nvrtc_available(const Target& t, std::string* why) {
  const Toolchain* const known = toolchain(why);
  if (!known) return false;
  const bool serves = !known->architectures.empty() && known->architectures.front() <= architecture(t);
  if (!serves && why) *why = fmt::format("{} makes no code for {}", known->name, t.cpu);
  return serves;
}

const std::string& nvrtc_fingerprint(const Target& target) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::string>;
  const std::lock_guard lock(mutex);
  std::string& text = (*known)[target.cpu];
  if (text.empty()) text = fmt::format("{}; {}; sources {}", toolchain()->name, target.cpu, cuda_sources());
  return text;
}

std::vector<Result> compile_with_nvrtc(const std::vector<Request>& requests, const Target& target,
                                       const CompileOptions& options) {
  const auto code = [&](std::span<const Wanted> wanted, const Parallel& parallel, const auto& done) {
    ToCode(target, options).run(wanted, parallel, done);
  };
  return compile_batch(requests, {machine::Form::Cuda, nvrtc_fingerprint(target), code, /*calls_wait=*/true}, options);
}

}  // namespace vesta::codegen
