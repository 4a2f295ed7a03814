// Reductions as CUDA C++: how they begin, combine two values, and combine the accumulators of a team's threads.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/cuda/lines.h"
#include "loops/online.h"

namespace vesta::codegen {

// ArgMax or ArgMin: values are paired with their positions.
bool is_arg(const loops::Instr& i);
std::string identity_text(const loops::Instr& i);
// Combines two named values. Not for ArgMax and ArgMin.
std::string combined_text(const loops::Instr& i, const std::string& a, const std::string& b);

// Builds the accumulators of a kernel. Accumulator r is the variable a<r>, an array where a thread has several rows.
class ReductionLines : protected KernelLines {
 protected:
  explicit ReductionLines(const loops::Kernel& k) : KernelLines(k), k_(k), t_(k.threads) {}

  // How many elements of the loop a thread processes at once.
  int64_t along() const { return column_ ? 1 : t_.each; }
  // The name of an accumulator; an element of an array if a thread has several rows.
  std::string own(char kind, loops::Ref r) const;
  void begin_accumulator(loops::Ref r);
  // Adds x, which for ArgMax and ArgMin is at `position`.
  void accumulate(loops::Ref r, const std::string& x, const std::string& position);
  // Combines accumulators of one loop. Afterwards every thread of the team has the results, or its first thread alone.
  void combine_over_team(const std::vector<loops::Ref>& accumulators, bool by_first);
  // Whether an accumulator adds up squares of differences from the thread's first element, not from a mean.
  bool is_relative(loops::Ref r) const;
  // Counts an element of such an accumulator. Its columns have the same number of them.
  void count_element(loops::Ref r);
  // The online sum that belongs to this accumulator, or nullptr.
  const loops::Online* sum_of(loops::Ref first) const;
  // The statement that adds the elements g to an accumulator and to its online sum.
  std::string added_to_sum(loops::Ref r) const;
  // Whether an online sum replaces this loop.
  bool is_left_out(const loops::Stage& s) const;

  const loops::Kernel& k_;
  const loops::Threads& t_;
  const loops::Range* column_ = nullptr;  // the range of which a thread has several elements, if teams lie across it
  std::vector<bool> by_column_;           // by instruction: the value differs between them
  int64_t told_ = 0;  // where, in shared memory, the next values may be that blocks which share rows exchange

 private:
  // The variables of an accumulator that are combined over a team: the value, and what belongs to it, which is a
  // position or an online sum, for squares with the count and mean of their elements.
  struct Variable {
    char kind;
    std::string_view type;
  };
  std::vector<Variable> variables_of(loops::Ref r) const;
  // Emits what `fn` writes once, or in a loop over a thread's rows.
  template <class F>
  void for_rows(loops::Ref r, F&& fn);
  void take_better(loops::Ref r, const std::string& x, const std::string& at);
  bool is_online_squares(loops::Ref r) const;
  // Combines the accumulator with the variables that another thread has.
  void meet(loops::Ref r, const std::vector<std::string>& other);
  std::vector<std::string> names_of(loops::Ref r, const std::function<std::string(const Variable&)>& name) const;
  void over_warp(loops::Ref r, int64_t width, int64_t between);
  void across_block(loops::Ref r, bool by_first);
  void squares_across(loops::Ref r, bool by_first);
  void over_block(const std::vector<loops::Ref>& accumulators, bool by_first);
  // Declares an array in shared memory and returns its name.
  std::string shared_values(char kind, loops::Ref r, std::string_view type, int64_t values, const char* name);
  void from_shared(loops::Ref r, int64_t values, const char* name);
  void finish_online(loops::Ref r);

  bool told_once_ = false;
};

}  // namespace vesta::codegen
