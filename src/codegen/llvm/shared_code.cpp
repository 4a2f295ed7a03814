#include "codegen/llvm/shared_code.h"

#include <elf.h>
#include <llvm/IR/Constants.h>

#include <cstring>
#include <mutex>
#include <optional>

#include "base/check.h"

namespace vesta::codegen {
namespace {

constexpr size_t kAlign = 64;

// The machine code in an ELF object that LLVM made. nullopt: the code has relocations, so a copy would not run.
std::optional<std::string> code_of(const std::string& object) {
  const auto read = [&]<class T>(uint64_t offset, T& x) {
    VESTA_CHECK(offset + sizeof x <= object.size(), "LLVM made an object whose sections are missing");
    std::memcpy(&x, object.data() + offset, sizeof x);
  };
  Elf64_Ehdr header;
  Elf64_Shdr names, section;
  read(0, header);
  const auto section_at = [&](size_t n, Elf64_Shdr& s) { read(header.e_shoff + n * sizeof s, s); };
  section_at(header.e_shstrndx, names);
  std::string code;
  for (size_t n = 0; n < header.e_shnum; ++n) {
    section_at(n, section);
    const std::string_view name = object.data() + names.sh_offset + section.sh_name;
    if (name == ".rela.text") return std::nullopt;
    if (name == ".text") code = object.substr(section.sh_offset, section.sh_size);
  }
  code.resize((code.size() + kAlign - 1) / kAlign * kAlign, '\0');
  return code;
}

llvm::Function* define(const SharedFunction& shared, llvm::Module& module, const Target& target,
                       const llvm::TargetMachine& machine) {
  llvm::Function* f = module.getFunction(shared.name);
  if (!f)
    f = llvm::Function::Create(shared.type(module.getContext()), llvm::Function::ExternalLinkage, shared.name, module);
  set_target(*f, target, machine);
  shared.emit(*f, target);
  return f;
}

// The machine code of the shared function, or nullopt (code_of).
std::optional<std::string> compile(const SharedFunction& shared, const Target& target, llvm::TargetMachine& machine,
                                   const MemoryBound& memory, const DumpTo& dump_to) {
  llvm::LLVMContext context;
  const std::unique_ptr<llvm::Module> module = new_module(shared.name, context, machine);
  llvm::Function* const f = define(shared, *module, target, machine);
  memory.emitted(*f);
  prepare(*f, machine);
  if (!dump_to.directory.empty()) dump({dump_to.directory, dump_to.name + "." + shared.name}, *module, machine);
  std::optional<std::string> code = code_of(make_object(*module, machine));
  memory.made();
  return code;
}

// The machine code of the shared functions that this process has compiled. fork() waits until no thread is inside of a
// generator (codegen/batch.cpp), so a child never inherits a locked mutex.
class Codes {
 public:
  // Calls compile() if no thread has done so for this key. Other threads that need the code wait. They hold no memory
  // of the budget, because the thread that compiles may wait for memory.
  const std::optional<std::string>& get(const std::string& key,
                                        const std::function<std::optional<std::string>()>& compile) {
    Slot& slot = slot_of(key);
    std::call_once(slot.once, [&] { slot.code = compile(); });
    return slot.code;
  }

 private:
  struct Slot {
    std::once_flag once;
    std::optional<std::string> code;
  };
  Slot& slot_of(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return slots_[key];
  }

  std::mutex mutex_;
  std::map<std::string, Slot> slots_;
};

}  // namespace

void link_shared_functions(const std::map<std::string, SharedFunction>& functions, llvm::Function& f,
                           const Target& target, llvm::TargetMachine& machine, const MemoryBound& memory,
                           const DumpTo& dump_to) {
  static auto* const codes = new Codes;
  llvm::Module& module = *f.getParent();
  std::string prefix;
  std::vector<std::pair<llvm::Function*, size_t>> copied;  // each with the offset of its code in the prefix
  for (const auto& [name, shared] : functions) {
    const auto made = [&] { return compile(shared, target, machine, memory, dump_to); };
    const std::optional<std::string> code =
        dump_to.directory.empty() ? codes->get(code_text(target) + name, made) : made();
    if (!code) {
      llvm::Function* const own = define(shared, module, target, machine);
      own->setLinkage(llvm::Function::InternalLinkage);
      prepare(*own, machine);
      continue;
    }
    copied.emplace_back(module.getFunction(name), prefix.size());
    prefix += *code;
  }
  if (copied.empty()) return;
  llvm::LLVMContext& context = module.getContext();
  f.setDSOLocal(true);
  f.setAlignment(llvm::Align(kAlign));
  f.setPrefixData(llvm::ConstantDataArray::getString(context, prefix, false));
  for (const auto& [function, place] : copied) {
    const auto distance = static_cast<int64_t>(place) - static_cast<int64_t>(prefix.size());
    llvm::Constant* const offset = llvm::ConstantInt::get(llvm::Type::getInt64Ty(context), distance, true);
    function->replaceAllUsesWith(llvm::ConstantExpr::getGetElementPtr(llvm::Type::getInt8Ty(context), &f, offset));
    function->eraseFromParent();
  }
}

}  // namespace vesta::codegen
