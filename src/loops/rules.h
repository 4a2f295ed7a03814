// Rules that the instructions of kernels and of dags have in common. The verifier of kernels derives from it, and so
// does the tests' verifier of dags (tests/unit/dag_reference.h).
#pragma once

#include "base/check.h"
#include "loops/kernel.h"

namespace vesta::loops {

class Rules {
 protected:
  Rules(std::string_view what, std::span<const Range> ranges, std::span<const Instr> instrs)
      : what_(what), ranges_(ranges), instrs_(instrs) {}
  ~Rules() = default;

  // What the verifiers of kernels and dags answer differently.
  virtual std::string text() const = 0;
  virtual bool visible(Ref r) const = 0;  // r is computed before the current instruction and readable by it
  virtual bool in_loop() const = 0;       // the current instruction may depend on Inner ranges
  virtual bool is_size(Expr symbol) const = 0;
  virtual size_t buffer_count() const = 0;
  virtual KernelBuffer buffer(size_t b) const = 0;
  virtual void access(const Instr&) const {}  // checks further rules of a load or store
  virtual void row(const Instr& i) const = 0;
  virtual void result(const Instr& i) const = 0;

  template <class... Args>
  void require(bool ok, fmt::format_string<Args...> format, Args&&... args) const {
    VESTA_CHECK(ok, "{} does not verify: {}\n{}", what_, fmt::format(format, std::forward<Args>(args)...), text());
  }
  // Checks each range: it has a variable, and sizes alone decide its extent.
  void range(size_t i) const;
  void symbols(Expr e, bool parallel, bool inner) const;
  void instr(Ref r);
  DType operand(const Instr& i, size_t n) const;
  static bool same_or_widened(DType from, DType to);

  Ref ref_ = 0;  // the current instruction

 private:
  void mask(const Instr& i, size_t n) const;
  void memory(const Instr& i, bool write) const;
  void compute(const Instr& i) const;

  std::string_view what_;
  std::span<const Range> ranges_;
  std::span<const Instr> instrs_;
};

}  // namespace vesta::loops
