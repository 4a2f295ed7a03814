#include "codegen/cuda/nvrtc.h"

#include <map>
#include <mutex>

#include "base/check.h"

namespace vesta::codegen {

namespace {
using Program = struct OpaqueProgram*;
}  // namespace

// The part of nvrtc.h that Vesta uses. Every function returns 0 for success.
struct Nvrtc::Functions {
  int (*version)(int* major, int* minor) = nullptr;
  int (*arch_count)(int* count) = nullptr;
  int (*archs)(int* list) = nullptr;
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const* texts,
                const char* const* names) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int options, const char* const*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*ptx_size)(Program, size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
  const char* (*error)(int) = nullptr;
};

machine::LibrarySearch Nvrtc::search() {
  static constexpr const char* names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  static constexpr const char* beside[] = {"../../nvidia/cu13/lib", "../../nvidia/cuda_nvrtc/lib", ".",
                                           "/usr/local/cuda/lib64"};
  return {names, beside, "VESTA_NVRTC"};
}

const Nvrtc* Nvrtc::get(std::string* why) {
  static std::string problem;
  static const Nvrtc* const nvrtc = [&]() -> const Nvrtc* {
    void* library = machine::open_library(search(), &problem);
    if (!library) return nullptr;
    auto* f = new Functions;
    machine::Symbols symbols(library);
    symbols.find(f->version, "nvrtcVersion");
    symbols.find(f->arch_count, "nvrtcGetNumSupportedArchs");
    symbols.find(f->archs, "nvrtcGetSupportedArchs");
    symbols.find(f->create, "nvrtcCreateProgram");
    symbols.find(f->destroy, "nvrtcDestroyProgram");
    symbols.find(f->compile, "nvrtcCompileProgram");
    symbols.find(f->log_size, "nvrtcGetProgramLogSize");
    symbols.find(f->log, "nvrtcGetProgramLog");
    symbols.find(f->cubin_size, "nvrtcGetCUBINSize");
    symbols.find(f->cubin, "nvrtcGetCUBIN");
    symbols.find(f->ptx_size, "nvrtcGetPTXSize");
    symbols.find(f->ptx, "nvrtcGetPTX");
    symbols.find(f->error, "nvrtcGetErrorString");
    if (!symbols.missing().empty()) {
      problem = fmt::format("NVRTC has no {}", symbols.missing());
      return nullptr;
    }
    return new Nvrtc(f, machine::file_of(library));
  }();
  if (!nvrtc && why) *why = problem;
  return nvrtc;
}

std::string Nvrtc::version() const {
  int major = 0, minor = 0;
  f_->version(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

int Nvrtc::major() const { return std::stoi(version()); }

std::vector<int> Nvrtc::architectures() const {
  int count = 0;
  f_->arch_count(&count);
  std::vector<int> list(static_cast<size_t>(count));
  if (count > 0) f_->archs(list.data());
  return list;
}

bool Nvrtc::takes(const std::string& arch) const {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, bool>;
  const std::lock_guard lock(mutex);
  const auto [it, fresh] = known->emplace(arch, false);
  if (!fresh) return it->second;
  try {
    cubin("extern \"C\" __global__ void probe() {}", "probe", arch);
    it->second = true;
  } catch (const InternalError&) {
  }
  return it->second;
}

std::string Nvrtc::compile(const std::string& source, const std::string& name, const std::string& arch,
                           bool binary) const {
  struct OwnedProgram {
    const Functions* f;
    Program p = nullptr;
    ~OwnedProgram() {
      if (p) f->destroy(&p);
    }
  } program{f_};
  const auto require = [&](int status, const char* what) {
    VESTA_CHECK(status == 0, "NVRTC {} {}: {}", what, name, f_->error(status));
  };
  require(f_->create(&program.p, source.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr), "takes no");
  const std::string wanted = "--gpu-architecture=" + arch;
  // From version 13 on this leaves out what only large programs use. That is half of the first stage, which threads run
  // one after another.
  const char* const options[] = {wanted.c_str(), "--std=c++17", "--minimal"};
  if (f_->compile(program.p, major() >= 13 ? 3 : 2, options) != 0) {
    size_t bytes = 0;
    f_->log_size(program.p, &bytes);
    std::string log(bytes, '\0');
    if (bytes > 0) f_->log(program.p, log.data());
    VESTA_CHECK(false, "NVRTC cannot compile {}:\n{}\n{}", name, log.c_str(), source);
  }
  size_t bytes = 0;
  require(binary ? f_->cubin_size(program.p, &bytes) : f_->ptx_size(program.p, &bytes), "has no code of");
  std::string code(bytes, '\0');
  require(binary ? f_->cubin(program.p, code.data()) : f_->ptx(program.p, code.data()), "gives no code of");
  return code;
}

std::string Nvrtc::cubin(const std::string& source, const std::string& name, const std::string& arch) const {
  return compile(source, name, arch, true);
}

std::string Nvrtc::ptx(const std::string& source, const std::string& name, int arch) const {
  return compile(source, name, fmt::format("compute_{}", arch), false);
}

}  // namespace vesta::codegen
