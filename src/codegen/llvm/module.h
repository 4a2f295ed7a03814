// From LLVM functions to machine code.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "base/target.h"

namespace vesta::codegen {

// Where files about a kernel go; an empty directory: nowhere.
struct DumpTo {
  std::string directory, name;
};

std::unique_ptr<llvm::Module> new_module(const std::string& name, llvm::LLVMContext& context,
                                         const llvm::TargetMachine& machine);
// Sets the attributes for which LLVM generates the function's code.
void set_target(llvm::Function& function, const Target& target, const llvm::TargetMachine& machine);
// Verifies the function, promotes stack slots to values and merges equal values. The emitters have already done the
// rest of the usual pipeline. Throws InternalError.
void prepare(llvm::Function& function, llvm::TargetMachine& machine);
// A relocatable ELF object.
std::string make_object(llvm::Module& module, llvm::TargetMachine& machine);
// Writes the module's IR and assembly.
void dump(const DumpTo& to, const llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace vesta::codegen
