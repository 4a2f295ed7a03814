// Runs instructions one at a time in plain C++: the meaning of the IR as code. The interpreters of kernels and of
// dags decide the order and the elements.
#pragma once

#include <unordered_map>

#include "loops/kernel.h"
#include "loops/scalar.h"

namespace vesta::loops {

class Evaluator {
 protected:
  // `buffers`: one pointer each. `symbols` and `sizes`: the size symbols and their values.
  Evaluator(std::span<const Instr> instrs, std::span<void* const> buffers, std::span<const Expr> symbols,
            std::span<const int64_t> sizes);
  ~Evaluator() = default;

  int64_t eval(Expr e) const;
  // Runs any instruction except row stores and row loads.
  void instr(Ref r);
  Scalar operand(const Instr& i, size_t n) const { return i.in[n] == kNoRef ? Scalar{} : values_[i.in[n]]; }
  // Starts all reductions and scans again.
  void restart();
  void restart(Ref r) { accumulators_[r] = {}; }
  // Called before an element of a buffer is read or written.
  virtual void before_access(Ref, int64_t /*element*/) {}

  std::vector<const void*>
      reads_;  // the memory that loads read for each buffer; by default the memory that stores write
  std::unordered_map<Expr, int64_t> symbols_;
  std::vector<Scalar> values_;

 private:
  // A running reduction. Floating sums use long double, so the interpreter is a reference for generated code.
  struct Accumulator {
    bool empty = true;
    Scalar value;
    long double sum = 0;
    int64_t position = 0;
  };
  static Scalar value_of(const Instr& i, const Accumulator& a);
  static void accumulate(const Instr& i, Accumulator& a, Scalar x, int64_t position);
  int64_t place(Ref r);  // byte offset from its buffer's first element
  const void* source(Ref r);
  void* target(Ref r);

  std::span<const Instr> instrs_;
  std::span<void* const> buffers_;
  std::vector<Accumulator> accumulators_;
};

}  // namespace vesta::loops
