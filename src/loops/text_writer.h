// Writes what the texts of kernels and of dags have in common: sizes, ranges, instructions, index expressions. Texts
// are canonical: symbols and values are renamed by position, terms are sorted by their text.
#pragma once

#include <fmt/format.h>

#include <unordered_map>

#include "loops/kernel.h"

namespace vesta::loops {

class TextWriter {
 protected:
  explicit TextWriter(std::span<const Instr> instrs) : instrs_(instrs) {}

  void sizes(std::span<const Expr> sizes);
  void ranges(std::span<const Range> ranges);
  void instr(Ref r);
  std::string value(Ref r) const;
  std::string text(Expr e) const;

  std::string out_;
  std::unordered_map<Expr, std::string> names_;  // of symbols

 private:
  std::string define(Ref r);
  std::string sum(const ExprNode& n) const;
  std::vector<std::string> sorted(const std::vector<Expr>& operands) const;

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    out_ += "  ";
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  std::span<const Instr> instrs_;
  std::unordered_map<Ref, size_t> numbers_;
  int indirects_ = 0;
};

}  // namespace vesta::loops
