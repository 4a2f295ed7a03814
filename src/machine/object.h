// One kernel's code as data: what a code generator gives, artifacts hold and load() puts into a process.
#pragma once

#include <cstdint>
#include <string>

namespace vesta::machine {

enum class Form : uint8_t {
  Elf,   // a relocatable ELF file for x86-64 that defines `symbol`
  Cuda,  // a cubin and PTX (cuda/code.h) that define the kernel `symbol`
  Text,  // the text of a loops::Kernel, which is interpreted
};

struct Object {
  Form form = Form::Text;
  std::string symbol;  // names the kernel's text and whatever else its bytes depend on: equal symbols, equal bytes
  std::string bytes;
};

}  // namespace vesta::machine
