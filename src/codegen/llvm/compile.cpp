// Compiles a kernel's text to an ELF object with LLVM.
#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassInstrumentation.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

#include <fstream>

#include "base/check.h"
#include "base/compile_memory.h"
#include "base/fault.h"
#include "codegen/batch.h"
#include "codegen/generator.h"
#include "codegen/llvm/emitter.h"
#include "codegen/llvm/memory.h"
#include "codegen/llvm/target.h"

namespace vesta::codegen {

namespace {

// Promotes stack slots to values and merges equal values. The emitter has already done the rest of the usual pipeline.
void simplify(llvm::Function& f, llvm::TargetMachine& machine) {
  llvm::DominatorTree tree(f);
  std::vector<llvm::AllocaInst*> slots;
  for (llvm::Instruction& i : f.getEntryBlock()) {
    auto* slot = llvm::dyn_cast<llvm::AllocaInst>(&i);
    if (slot && llvm::isAllocaPromotable(slot)) slots.push_back(slot);
  }
  llvm::PromoteMemToReg(slots, tree);
  llvm::FunctionAnalysisManager analyses;
  analyses.registerPass([&] { return machine.getTargetIRAnalysis(); });
  analyses.registerPass([&] { return llvm::TargetLibraryAnalysis(); });
  analyses.registerPass([&] { return llvm::DominatorTreeAnalysis(); });
  analyses.registerPass([&] { return llvm::AssumptionAnalysis(); });
  analyses.registerPass([&] { return llvm::PassInstrumentationAnalysis(); });
  llvm::EarlyCSEPass().run(f, analyses);
}

// LLVM's memory for one kernel, from the options' budget.
class KernelMemory {
 public:
  KernelMemory(const Request& request, const CompileOptions& options)
      : name_("the kernel " + request.name), budget_(compile_budget(options.memory)), cancel_(options.cancel) {}
  // Throws OverBudget if so many instructions take more than the budget allows.
  void require(int64_t instructions) const { memory_.require(llvm_memory(instructions), budget_, name_); }
  // Waits until other threads have left enough for the function.
  void take(const llvm::Function& f) { memory_.take(bytes_ = llvm_memory(f), budget_, name_, cancel_); }
  int64_t bytes() const { return bytes_; }

 private:
  const std::string name_;
  const int64_t budget_;
  const CancelToken* const cancel_;
  int64_t bytes_ = 0;
  CompileMemory memory_{CompileMemory::Part::Generators};
};

// A module with one function from one kernel, ready for code generation. Adds expressions to the kernel's context,
// which must belong to this thread. While a thread waits for memory, it holds only the IR, about a
// tenth of what it waits for.
std::unique_ptr<llvm::Module> build_module(loops::Kernel kernel, const std::string& symbol, const Target& target,
                                           llvm::LLVMContext& context, llvm::TargetMachine& machine,
                                           KernelMemory& memory) {
  memory.require(static_cast<int64_t>(kernel.instrs.size()));  // none becomes less than an instruction
  auto module = std::make_unique<llvm::Module>(symbol, context);
  module->setDataLayout(machine.createDataLayout());
  module->setTargetTriple(machine.getTargetTriple().str());
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* integer = llvm::Type::getInt64Ty(context);
  auto* type =
      llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, pointer, pointer, integer, integer}, false);
  llvm::Function* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol, *module);
  f->setDoesNotThrow();
  f->addFnAttr("target-cpu", machine.getTargetCPU());
  f->addFnAttr("target-features", machine.getTargetFeatureString());
  f->addFnAttr("prefer-vector-width", std::to_string(8 * target.vector_bytes));
  Emitter(analyse(std::move(kernel)), *module, *f, target, [&](int64_t n) { memory.require(n); }).run();
  memory.take(*f);
  // The check is cheap compared to code generation, which would crash on a malformed function.
  std::string broken;
  llvm::raw_string_ostream out(broken);
  if (llvm::verifyFunction(*f, &out)) VESTA_CHECK(false, "LLVM rejects the code of a kernel: {}", broken);
  simplify(*f, machine);
  return module;
}

std::string emit_object(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  llvm::MCContext* context = nullptr;
  bool failed = machine.addPassesToEmitMC(passes, context, out, /*DisableVerify=*/true);
  VESTA_CHECK(!failed, "LLVM cannot emit code for this machine");
  passes.run(module);
  return {bytes.data(), bytes.size()};
}

void dump(const std::string& directory, const std::string& name, const std::string& text, llvm::Module& module,
          llvm::TargetMachine& machine) {
  std::filesystem::create_directories(directory);
  std::string stem = directory + "/" + name;
  std::ofstream(stem + ".kernel") << text;
  std::error_code error;
  llvm::raw_fd_ostream ir(stem + ".ll", error);
  module.print(ir, nullptr);
  auto copy = llvm::CloneModule(module);
  llvm::raw_fd_ostream assembly(stem + ".s", error);
  llvm::legacy::PassManager passes;
  if (!machine.addPassesToEmitFile(passes, assembly, nullptr, llvm::CodeGenFileType::AssemblyFile)) passes.run(*copy);
}

Generated generate(const Request& request, const std::string& symbol, const Target& target,
                   const CompileOptions& options) {
  llvm::TargetMachine& machine = thread_target_machine(target);
  KernelMemory memory(request, options);
  llvm::LLVMContext context;
  // The text is parsed into a context of its own, because threads may share the expressions of the request's kernel.
  std::unique_ptr<loops::Kernel> kernel = loops::parse_kernel(request.text);
  std::unique_ptr<llvm::Module> module = build_module(std::move(*kernel), symbol, target, context, machine, memory);
  if (!options.dump_dir.empty()) dump(options.dump_dir, request.name, request.text, *module, machine);
  return {emit_object(*module, machine), memory.bytes()};
}

}  // namespace

std::vector<Result> compile_with_llvm(const std::vector<Request>& requests, const Target& target,
                                      const CompileOptions& options) {
  const auto code = [&](std::span<const Wanted> wanted, const Parallel& parallel, const auto& done) {
    parallel(wanted.size(), [&](size_t i) {
      if (options.cancel) options.cancel->check();
      fault::reached("kernel");
      const KernelSpan span(wanted[i]);
      done(i, generate(*wanted[i].request, wanted[i].symbol, target, options));
    });
  };
  return compile_batch(requests, {machine::Form::Elf, llvm_fingerprint(target), code}, options);
}

}  // namespace vesta::codegen
