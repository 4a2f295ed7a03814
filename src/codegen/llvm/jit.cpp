#include "codegen/llvm/jit.h"

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/Shared/ExecutorSymbolDef.h>

#include "base/check.h"
#include "codegen/llvm/lanes.h"

namespace vesta::codegen {

namespace {

using namespace llvm::orc;

template <class T>
T must(llvm::Expected<T> value, const char* what) {
  if (!value) VESTA_CHECK(false, "{}: {}", what, llvm::toString(value.takeError()));
  return std::move(*value);
}

void must(llvm::Error error, const char* what) {
  if (error) VESTA_CHECK(false, "{}: {}", what, llvm::toString(std::move(error)));
}

class Jit {
 public:
  Jit()
      : session_(must(SelfExecutorProcessControl::Create(), "LLVM's JIT")),
        layer_(session_, must(llvm::jitlink::InProcessMemoryManager::Create(), "LLVM's memory manager")),
        runtime_(session_.createBareJITDylib("runtime")),
        kernels_(session_.createBareJITDylib("kernels")) {
    SymbolMap symbols;
    for (const RuntimeSymbol& s : runtime_symbols()) {
      symbols[session_.intern(s.name)] = {ExecutorAddr::fromPtr(s.address), llvm::JITSymbolFlags::Exported};
    }
    must(runtime_.define(absoluteSymbols(std::move(symbols))), "the kernels' runtime symbols");
    kernels_.addToLinkOrder(runtime_);
  }

  ResourceTrackerSP link(std::unique_ptr<llvm::MemoryBuffer> object, const std::string& symbol, KernelFn* entry) {
    ResourceTrackerSP tracker = kernels_.createResourceTracker();
    must(layer_.add(tracker, std::move(object)), "adding a kernel");
    auto found = must(session_.lookup({&kernels_}, session_.intern(symbol)), "linking a kernel");
    *entry = found.getAddress().toPtr<KernelFn>();
    return tracker;
  }

  // Failing to free code is not worth an exception in a destructor.
  static void remove(ResourceTracker& tracker) { llvm::consumeError(tracker.remove()); }

 private:
  ExecutionSession session_;
  ObjectLinkingLayer layer_;
  JITDylib& runtime_;
  JITDylib& kernels_;
};

// Never destroyed: kernels may outlive static destructors.
Jit& jit() {
  static Jit* j = new Jit;
  return *j;
}

class LinkedCode final : public Code {
 public:
  LinkedCode(ResourceTrackerSP tracker, KernelFn entry, size_t bytes)
      : tracker_(std::move(tracker)), entry_(entry), bytes_(bytes) {}
  ~LinkedCode() override { Jit::remove(*tracker_); }
  KernelFn entry() const override { return entry_; }
  size_t bytes() const override { return bytes_; }

 private:
  ResourceTrackerSP tracker_;
  KernelFn entry_;
  size_t bytes_;
};

}  // namespace

std::shared_ptr<const Code> link(std::unique_ptr<llvm::MemoryBuffer> object, const std::string& symbol) {
  size_t bytes = object->getBufferSize();
  KernelFn entry = nullptr;
  ResourceTrackerSP tracker = jit().link(std::move(object), symbol, &entry);
  return std::make_shared<LinkedCode>(std::move(tracker), entry, bytes);
}

}  // namespace vesta::codegen
