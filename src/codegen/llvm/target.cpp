#include "codegen/llvm/target.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "base/check.h"
#include "base/digest.h"
#include "machine/imports.h"
#include "vesta_codegen_digest.h"

namespace vesta::codegen {

namespace {

struct Host {
  std::string triple, cpu, features;
  HostFeatures known;
  Target target;

  Host() {
    triple = llvm::sys::getProcessTriple();
    llvm::Triple parsed(triple);
    cpu = llvm::sys::getHostCPUName().str();
    llvm::StringMap<bool> have;
#if LLVM_VERSION_MAJOR >= 19
    have = llvm::sys::getHostCPUFeatures();
#else
    llvm::sys::getHostCPUFeatures(have);
#endif
    auto on = [&](const char* name) { return have.lookup(name); };
    // What ATen's kernels are held to holds for ours.
    const char* wanted = std::getenv("ATEN_CPU_CAPABILITY");
    const std::string_view capability = wanted && parsed.isX86() ? wanted : "";
    if (capability == "avx2" && on("avx2") && on("fma") && on("f16c")) {
      cpu = "x86-64-v3";
      have.clear();
      for (const char* f : {"avx2", "fma", "f16c"}) have[f] = true;
    } else if (capability == "default" && on("sse4.2")) {
      cpu = "x86-64-v2";
      have.clear();
    }
    // Sorted, so that the fingerprint does not depend on a hash table.
    std::vector<std::string> sorted;
    for (const auto& f : have) sorted.push_back((f.getValue() ? "+" : "-") + f.getKey().str());
    std::sort(sorted.begin(), sorted.end());
    features = fmt::format("{}", fmt::join(sorted, ","));

    known.avx512 = on("avx512f") && on("avx512bw") && on("avx512vl") && on("avx512dq");
    known.half_convert = on("f16c") || on("avx512f") || parsed.isAArch64();
    known.fma = on("fma") || on("avx512f") || parsed.isAArch64();
    known.streaming_stores = parsed.isX86();
    target.name = cpu;
    target.vector_bytes = known.avx512 ? 64 : on("avx2") ? 32 : 16;
    target.fingerprint =
        fmt::format("llvm {}; {}; {}; {}; vector functions {}; sources {}", LLVM_VERSION_STRING, triple, cpu, features,
                    digest({machine::vector_functions()}), VESTA_CODEGEN_DIGEST);
  }
};

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    // Loops arrive with their addresses already in shape; looking for better ones takes a millisecond a kernel.
    auto& options = llvm::cl::getRegisteredOptions();
    if (auto it = options.find("disable-lsr"); it != options.end()) {
      static_cast<llvm::cl::opt<bool>*>(it->second)->setValue(true);
    }
  });
}

const Host& host() {
  static const Host* h = new Host;
  return *h;
}

}  // namespace

const Target& host_target() { return host().target; }
const HostFeatures& host_features() { return host().known; }
bool available() { return true; }

llvm::TargetMachine& thread_target_machine() {
  thread_local std::unique_ptr<llvm::TargetMachine> machine = [] {
    initialize_llvm();
    const Host& h = host();
    std::string error;
    const llvm::Target* t = llvm::TargetRegistry::lookupTarget(h.triple, error);
    VESTA_CHECK(t != nullptr, "LLVM does not know this machine: {}", error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
    return std::unique_ptr<llvm::TargetMachine>(t->createTargetMachine(
        h.triple, h.cpu, h.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Less,
        /*JIT=*/true));
  }();
  return *machine;
}

}  // namespace vesta::codegen
