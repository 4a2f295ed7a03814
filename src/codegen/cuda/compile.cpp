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
#include "codegen/cuda/nvrtc.h"
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

std::string generate(const Request& request, const std::string& symbol, const Target& target,
                     const std::string& dump_dir) {
  const Nvrtc& nvrtc = *Nvrtc::get();
  const std::string source = kCudaPrelude + cuda_source(*loops::parse_kernel(request.text), symbol);
  const int arch = architecture(target);
  const std::vector<int> known = nvrtc.architectures();
  const bool binary = std::find(known.begin(), known.end(), arch) != known.end();
  // The driver finishes what is for a GPU that NVRTC does not know.
  const int below = *(std::upper_bound(known.begin(), known.end(), arch) - 1);
  std::string code = binary ? nvrtc.cubin(source, symbol, arch) : nvrtc.ptx(source, symbol, below);
  if (!dump_dir.empty()) {
    std::filesystem::create_directories(dump_dir);
    std::ofstream(dump_dir + "/" + request.name + ".kernel") << request.text;
    std::ofstream(dump_dir + "/" + request.name + ".cu") << source;
    std::ofstream(dump_dir + "/" + request.name + (binary ? ".cubin" : ".ptx")) << code;
  }
  return code;
}

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
    text = fmt::format("nvrtc {}; {}; sources {}", Nvrtc::get()->version(), target.cpu, VESTA_CUDA_DIGEST);
  return text;
}

std::vector<Result> compile_with_nvrtc(const std::vector<Request>& requests, const Target& target,
                                       const CompileOptions& options) {
  const auto code = [&](const Request& request, const std::string& symbol) {
    return generate(request, symbol, target, options.dump_dir);
  };
  return compile_batch(requests, {machine::Form::Cuda, nvrtc_fingerprint(target), code}, options);
}

}  // namespace vesta::codegen
