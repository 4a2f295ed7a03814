#include "codegen/cuda/jit_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace vesta::codegen {

namespace {
using Linking = struct OpaqueLinking*;
constexpr int kPtx = 2;  // NVJITLINK_INPUT_PTX
constexpr const char* kNames[] = {"libnvJitLink.so.13", "libnvJitLink.so.12"};
}  // namespace

// The part of nvJitLink.h that Vesta uses. Every function returns 0 for success.
struct JitLink::Functions {
  int (*create)(Linking*, uint32_t options, const char* const*) = nullptr;
  int (*destroy)(Linking*) = nullptr;
  int (*add)(Linking, int kind, const void* data, size_t bytes, const char* name) = nullptr;
  int (*complete)(Linking) = nullptr;
  int (*cubin_size)(Linking, size_t*) = nullptr;
  int (*cubin)(Linking, void*) = nullptr;
};

machine::LibrarySearch JitLink::search() {
  static constexpr const char* beside[] = {"../../nvidia/cu13/lib", "../../nvidia/nvjitlink/lib", ".",
                                           "/usr/local/cuda/lib64"};
  return {kNames, beside};
}

const JitLink* JitLink::get(int major) {
  static const JitLink* const link = [&]() -> const JitLink* {
    const auto name = std::find(std::begin(kNames), std::end(kNames), fmt::format("libnvJitLink.so.{}", major));
    if (name == std::end(kNames)) return nullptr;
    void* const library = machine::open_library({std::span(name, 1), search().beside}, nullptr);
    if (!library) return nullptr;
    auto* f = new Functions;
    machine::Symbols symbols(library);
    // The names of functions contain the version of the interface.
    const auto find = [&](auto& function, const char* name) {
      symbols.find(function, fmt::format("__nvJitLink{}_{}_0", name, major));
    };
    find(f->create, "Create");
    find(f->destroy, "Destroy");
    find(f->add, "AddData");
    find(f->complete, "Complete");
    find(f->cubin_size, "GetLinkedCubinSize");
    find(f->cubin, "GetLinkedCubin");
    return symbols.missing().empty() ? new JitLink(f, machine::file_of(library)) : nullptr;
  }();
  return link;
}

std::optional<std::string> JitLink::cubin(const std::string& ptx, const std::string& name, int arch) const {
  struct Linker {
    const Functions* f;
    Linking l = nullptr;
    ~Linker() {
      if (l) f->destroy(&l);
    }
  } linking{f_};
  const std::string wanted = fmt::format("-arch=sm_{}", arch);
  const char* const options[] = {wanted.c_str()};
  size_t bytes = 0;
  if (f_->create(&linking.l, 1, options) != 0 ||
      f_->add(linking.l, kPtx, ptx.c_str(), ptx.size() + 1, name.c_str()) != 0 || f_->complete(linking.l) != 0 ||
      f_->cubin_size(linking.l, &bytes) != 0)
    return std::nullopt;
  std::string code(bytes, '\0');
  if (f_->cubin(linking.l, code.data()) != 0) return std::nullopt;
  return code;
}

}  // namespace vesta::codegen
