// The type-erased compiled function behind vesta::compile and the backend of torch.compile. It counts and logs every
// eager call. A compiled call that fails after it has written to memory rethrows; no eager call repeats the writes. Not
// a public interface.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vesta/options.h"
#include "vesta/report.h"
#include "vesta/warmed.h"

namespace vesta::detail {

// One flat call: its tensors and (possibly symbolic) integers in order, and a key that holds the rest, which is the
// structure of the arguments and the value of each constant.
struct Call {
  c10::SmallVector<at::Tensor, 8> tensors;
  c10::SmallVector<int64_t, 4> integers;
  c10::SmallVector<char, 64> key;
  // If run() gave up the call's trace because the deadline was over: how long the trace took, and how many operators it
  // had recorded.
  struct {
    int64_t deadline_ms = 0;
    double ms = 0;
    int64_t operators = 0;
  } late;

  void tag(char c) { key.push_back(c); }
  void bytes(const void* p, size_t n) {
    const char* c = static_cast<const char*>(p);
    key.append(c, c + n);
  }
};

// The results of a call: values that change from call to call (Tensor, int, None), and constants of the variant.
struct Results {
  std::vector<c10::IValue> values;
  std::shared_ptr<const std::vector<c10::IValue>> constants;
};

// Facts about an input that only some entry points know.
struct InputInfo {
  std::string name;
  bool parameter = false;     // the caller passes the same tensor in each call
  std::vector<bool> dynamic;  // per dimension; an integer has one entry. Read only if `dynamic_given`
  std::vector<int> symbol_label;
  bool dynamic_given = false;
};

// Stops a trace and the call when it is thrown. Nobody reads what(); `cause` is rethrown unchanged.
struct Interrupted {
  std::exception_ptr cause;
};

class VESTA_API Function {
 public:
  struct Impl;
  // Runs the callable on `leaves` (tensors, then integers as SymInt) and flattens its results.
  using Program =
      std::function<void(const std::vector<c10::IValue>& leaves, Results& values, std::vector<c10::IValue>& constants)>;

  // `tensors`, `integers`: facts about the inputs; empty if none are known.
  Function(std::string name, Options options, std::vector<InputInfo> tensors = {},
           std::vector<InputInfo> integers = {});
  ~Function();
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;

  // True: `results` are filled. False: the caller must run its own callable; the reason is counted.
  // `give_away`: the call's tensors are released as soon as they have been read.
  bool run(Call& call, const Program& program, Results& results, bool give_away = false);

  // Compiles what such a call needs, however long that takes, and runs nothing of it but the callable, on tensors of a
  // trace. Counts no call.
  Warmed warm(Call& call, const Program& program);

  // Measures a call that runs eager because run() said so: recompiles are bounded by the time of calls. After a trace
  // that was given up for lack of time, it counts the operators that run.
  class VESTA_API EagerRun {
   public:
    EagerRun(const Function& function, const Call& call);
    ~EagerRun();
    EagerRun(const EagerRun&) = delete;

   private:
    struct Late;
    Impl& impl_;
    std::chrono::steady_clock::time_point begin_;
    std::unique_ptr<Late> late_;
  };

  // Waits until `end` for its compiles in the background, and takes what they have made. False: one is still running.
  bool wait(std::chrono::steady_clock::time_point end);

  FunctionReport report() const;
  void reset();  // forgets all variants and counts

  static FunctionReport report_of(const Impl& impl);

 private:
  std::shared_ptr<Impl> impl_;
};

// Gives the call's tensors these sizes, in their order; without any, leaves them as they are. Throws UserError for
// another number of them.
VESTA_API void resize(Call& call, const std::vector<std::vector<int64_t>>& sizes);

// Vectors for results that keep their memory between the calls of a thread.
VESTA_API std::vector<c10::IValue> borrow_values();
VESTA_API void return_values(std::vector<c10::IValue>&& values);

// Python passes a symbolic number to an operator on tensors as a 0-d tensor with a placeholder value, from which the
// number can be found. The Python entry point sets this reader once. It returns nullopt for an ordinary tensor.
using NumberReader = std::optional<c10::Scalar> (*)(const at::Tensor&);
VESTA_API void set_number_reader(NumberReader reader);

}  // namespace vesta::detail
