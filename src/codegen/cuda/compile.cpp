// A kernel's text to code for a GPU: CUDA C++, and NVRTC.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "base/check.h"
#include "codegen/batch.h"
#include "codegen/cuda/jit_link.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/ptx.h"
#include "codegen/cuda/source.h"
#include "codegen/generator.h"
#include "vesta_cuda_digest.h"

namespace vesta::codegen {
namespace {

// 90 of "sm_90"; 0: not the name of a GPU.
int architecture(const Target& t) {
  int arch = 0;
  const std::string_view name = t.cpu;
  if (!name.starts_with("sm_")) return 0;
  const auto [end, error] = std::from_chars(name.data() + 3, name.data() + name.size(), arch);
  return error == std::errc() && end == name.data() + name.size() ? arch : 0;
}

// One compile of NVRTC makes PTX of all kernels, since its threads wait for one another; then each kernel's part
// becomes machine code in a thread of its own.
class ToCode {
 public:
  ToCode(const Target& target, const std::string& dump_dir)
      : nvrtc_(*Nvrtc::get()), dump_dir_(dump_dir), arch_(architecture(target)) {
    const std::vector<int> known = nvrtc_.architectures();
    binary_ = std::find(known.begin(), known.end(), arch_) != known.end();
    // The driver finishes what is for a GPU that NVRTC does not know.
    virtual_ = *(std::upper_bound(known.begin(), known.end(), arch_) - 1);
    link_ = JitLink::get(nvrtc_.major());
  }

  void run(std::span<const Wanted> wanted, const Parallel& parallel,
           const std::function<void(size_t, std::string)>& done) const {
    std::vector<std::string> sources, names;
    std::string all = kCudaPrelude;
    for (const Wanted& w : wanted) {
      sources.push_back(cuda_source(*loops::parse_kernel(w.request->text), w.symbol));
      names.push_back(w.symbol);
      all += sources.back();
    }
    std::vector<std::string> parts(wanted.size());
    if (!binary_ || link_) parts = split_ptx(nvrtc_.ptx(all, names.front(), virtual_), names);
    parallel(wanted.size(), [&](size_t i) {
      std::string code = finished(parts[i], sources[i], names[i]);
      if (!dump_dir_.empty()) dump(*wanted[i].request, sources[i], code);
      done(i, std::move(code));
    });
  }

 private:
  std::string finished(const std::string& ptx, const std::string& source, const std::string& name) const {
    if (!binary_) return ptx + '\0';  // the driver reads to the end of the string
    if (link_)
      if (auto code = link_->cubin(ptx, name, arch_)) return std::move(*code);
    return nvrtc_.cubin(kCudaPrelude + source, name, arch_);
  }

  void dump(const Request& request, const std::string& source, const std::string& code) const {
    std::filesystem::create_directories(dump_dir_);
    const std::string path = dump_dir_ + "/" + request.name;
    std::ofstream(path + ".kernel") << request.text;
    std::ofstream(path + ".cu") << kCudaPrelude << source;
    std::ofstream(path + (binary_ ? ".cubin" : ".ptx")) << code;
  }

  const Nvrtc& nvrtc_;
  const JitLink* link_;
  const std::string& dump_dir_;
  int arch_, virtual_;
  bool binary_;
};

}  // namespace

bool nvrtc_available(const Target& t, std::string* why) {
  const Nvrtc* const nvrtc = Nvrtc::get(why);
  if (!nvrtc) return false;
  const std::vector<int> known = nvrtc->architectures();
  const bool serves = !known.empty() && known.front() <= architecture(t);
  if (!serves && why) *why = fmt::format("NVRTC {} makes no code for {}", nvrtc->version(), t.cpu);
  return serves;
}

const std::string& nvrtc_fingerprint(const Target& target) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::string>;
  const std::lock_guard lock(mutex);
  std::string& text = (*known)[target.cpu];
  if (text.empty())
    text = fmt::format("nvrtc {}{}; {}; sources {}", Nvrtc::get()->version(),
                       JitLink::get(Nvrtc::get()->major()) ? " and its linker" : "", target.cpu, VESTA_CUDA_DIGEST);
  return text;
}

std::vector<Result> compile_with_nvrtc(const std::vector<Request>& requests, const Target& target,
                                       const CompileOptions& options) {
  const auto code = [&](std::span<const Wanted> wanted, const Parallel& parallel, const auto& done) {
    ToCode(target, options.dump_dir).run(wanted, parallel, done);
  };
  return compile_batch(requests, {machine::Form::Cuda, nvrtc_fingerprint(target), code}, options);
}

}  // namespace vesta::codegen
