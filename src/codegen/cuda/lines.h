// Builds a kernel's CUDA C++ line by line, with integer expressions. Knows nothing of instructions.
#pragma once

#include <fmt/format.h>

#include <string>
#include <unordered_map>

#include "base/expr.h"
#include "loops/kernel.h"

namespace vesta::codegen {

class KernelLines {
 protected:
  // The kernel's sizes are its arguments s0, s1, ...
  explicit KernelLines(const loops::Kernel& k);

  // A text that ends with "{" indents the lines after it, up to the one that begins with "}".
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    const std::string text = fmt::format(format, std::forward<Args>(args)...);
    if (text.starts_with('}')) --indent_;
    out_.append(2 * indent_, ' ');
    out_ += text + "\n";
    if (text.ends_with('{')) ++indent_;
  }
  // The expression as text. Each of its symbols must have a name.
  std::string text(Expr e) const;

  std::string index_ = "i64";  // the type of indices and positions; int if all of them provably fit
  std::unordered_map<Expr, std::string> names_;
  std::string out_;

 private:
  size_t indent_ = 1;
};

}  // namespace vesta::codegen
