// One kernel's code as data: the result of a code generator, the content of artifacts and the input of load(). Holds no
// address of a process.
#pragma once

#include <cstdint>
#include <string>

namespace vesta::machine {

enum class Form : uint8_t {
  Elf,   // a relocatable ELF file for x86-64 that defines `symbol`
  Cuda,  // a cubin and PTX (cuda/code.h) that define the kernel `symbol`
  Text,  // the text of a loops::Kernel, which tests interpret
};

struct Object {
  Form form = Form::Text;
  std::string
      symbol;  // names the kernel's text and everything else that the bytes depend on: equal symbols mean equal bytes
  std::string bytes;
};

}  // namespace vesta::machine
