#include "capture/python/tracer/progress.h"

#include <opcode.h>

#include "base/compile_memory.h"
#include "capture/python/functions/code_origin.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture {

using Clock = std::chrono::steady_clock;

UserLine user_line(PyCodeObject* code, int position) {
  const int line = line_of(code, position);
  return {std::string(utf8_of(code->co_filename)), line > 0 ? line : code->co_firstlineno,
          std::string(utf8_of(code->co_qualname))};
}

bool Progress::begin_instruction(Frame* f, int position) {
  note_size_guards();
  code_ = code_of(f);
  place_ = {f, position};
  if (f == t_.root) {
    if (root_count_ == t_.settings.stop_at) return false;
    int units = 0;
    const int opcode = pristine_code(code_, &units)[2 * position];
    if (opcode == PUSH_EXC_INFO && raised_at_ < 0) raised_at_ = root_count_ - 1;
    if (opcode == POP_EXCEPT) raised_at_ = -1;
    ++root_count_;
  }
  if (++instructions_ > t_.settings.most_instructions && !ended_) t_.graph_break(Break::LongTrace);
  if (instructions_ == t_.settings.most_before_operators && !t_.settings.whole && recorded_operators() == 0 && !ended_)
    t_.graph_break(Break::LongTrace);
  // Between two readings of the clock at most some tens of operators are traced, which take less than a millisecond.
  constexpr int64_t kPerReading = 64;
  if (instructions_ % kPerReading == 0 && !ended_) check_bounds();
  return true;
}

void Progress::check_bounds() {
  const TraceSettings& s = t_.settings;
  if (s.end != Clock::time_point::max() && Clock::now() > s.end)
    t_.graph_break(Break::DeadlinePassed);
  else if (!graphs_fit(s.memory))
    t_.graph_break(Break::GraphMemory, why_graphs_do_not_fit(s.memory));
}

void Progress::note_size_guards() {
  const size_t n = size_guard_count();
  if (n == size_guards_) return;
  if (code_ && n > size_guards_) {
    const UserLine line = user_line(code_, place_.position);
    say_who_asked(size_guards_, line.file + ":" + std::to_string(line.line));
  }
  size_guards_ = n;
}

PyObject* Progress::graph_break(Reason why) {
  if (ended_) return stopped();
  ended_ = true;
  site_.reason = std::move(why);
  site_.needs_gradients = trace_needs_gradients();
  site_.operators = recorded_operators();
  if (!place_.frame) return stopped();
  site_.where = user_line(code_of(place_.frame), place_.position);
  for (Frame* f = place_.frame; f && f != t_.root;) {
    f = caller_of(f);
    if (f) site_.stack.insert(site_.stack.begin(), user_line(code_of(f), executing(f)));
  }
  return stopped();
}

void Progress::want_module(std::string_view name) {
  if (!ended_ && name.starts_with("torch.")) site_.module = name;
}

PyObject* Progress::stopped() {
  PyErr_SetString(PyExc_RuntimeError, "the trace has ended");
  return nullptr;
}

std::string Progress::line() const {
  if (!place_.frame) return {};
  // A module's forward() tells a user more than the line of torch.nn that it has called.
  Frame* f = place_.frame;
  while (f && f != t_.root && is_installed_package(code_of(f))) f = caller_of(f);
  if (!f || is_installed_package(code_of(f))) f = place_.frame;
  const UserLine at = user_line(code_of(f), f == place_.frame ? place_.position : executing(f));
  return at.file + ":" + std::to_string(at.line);
}

}  // namespace vesta::capture
