// Bounds the memory that all compiles of the process take together, by estimates: Options::compile_memory.
//
// The budget has three parts. A compile that waits for one of them holds no part that comes later in this order, so
// every wait ends.
//   graphs      an eighth. Nobody waits: a trace whose graph does not fit is given up.
//   plans       three eighths. The rest of a compile holds its plan.
//   generators  a half. A generator holds its memory for one kernel, and waits for nothing meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/at_fork.h"
#include "base/cancel.h"
#include "base/totals.h"
#include "vesta/error.h"

namespace vesta {

// The memory that this process may use, in bytes: the machine's, or less where a control group or a limit of the
// process's address space allows less.
int64_t usable_memory();
// In bytes. `option`: Options::compile_memory; -1: a quarter of usable_memory().
int64_t compile_budget(int64_t option);

// What generators may take of a budget, in bytes.
int64_t generator_memory(int64_t budget);

// Whether the graphs of the process fit into their part of a budget.
bool graphs_fit(int64_t budget);
// Why they do not fit: "2.0 MiB, of which graphs may take 256.0 KiB".
std::string why_graphs_do_not_fit(int64_t budget);

// A piece of work takes more than its part of the budget.
struct OverBudget : Unsupported {
  explicit OverBudget(const std::string& what, int64_t bytes = 0) : Unsupported(what), bytes(bytes) {}
  int64_t bytes;  // that it takes, an estimate; 0: not known
};

class CompileMemory {
 public:
  enum class Part : uint8_t { Plans, Generators };
  explicit CompileMemory(Part part);
  ~CompileMemory();
  CompileMemory(const CompileMemory&) = delete;

  // Throws OverBudget if the budget's part is too small for these bytes alone. `what`: for its message.
  void require(int64_t bytes, int64_t budget, std::string_view what) const;
  // Holds so many bytes from now on, instead of what it held, and waits until others have left enough of the budget's
  // part. Throws as require() does, and Cancelled if `cancel`, which may be null, is cancelled meanwhile.
  void take(int64_t bytes, int64_t budget, std::string_view what, const CancelToken* cancel);
  // Holds the budget's whole part in the same way. Returns its bytes.
  int64_t take_all(int64_t budget, const CancelToken* cancel);

 private:
  struct Account;
  using Accounts = std::array<Account, 2>;  // by part
  void hold(int64_t bytes, int64_t most, const CancelToken* cancel);
  static std::atomic<Accounts*>& accounts();
  static Account& account(Part part);
  static const AtFork at_fork_;
  const Part part_;
  Account* const account_;  // a forked child makes a new one
  totals::KeptBytes kept_;
  int64_t bytes_ = 0;
};

}  // namespace vesta
