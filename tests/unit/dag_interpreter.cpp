#include "base/check.h"
#include "dag_reference.h"
#include "evaluator.h"
#include "loops/levels.h"

namespace vesta::loops {

namespace {

class Interpreter : Evaluator {
 public:
  Interpreter(const Dag& dag, std::span<void* const> buffers, std::span<const int64_t> sizes)
      : Evaluator(dag.instrs(), buffers, dag.sizes(), sizes), dag_(dag), levels_(levels_of(dag)) {
    VESTA_CHECK(buffers.size() == dag.buffers().size(), "{} pointers to {} buffers", buffers.size(),
                dag.buffers().size());
    for (const DagBuffer& b : dag.buffers()) extents_.push_back(eval(b.extent));
    keep_what_is_read();
    for (int s = 0; s <= levels_.last; ++s) loops_.push_back(loop_of(s));
  }

  void run() {
    for_each(RangeKind::Parallel, [&] {
      restart();
      for (int s = 0; s <= levels_.last; ++s) {
        for (Ref r = 0; r < dag_.instrs().size(); ++r) {
          if (levels_.live[r] && !levels_.inner[r] && levels_.level[r] == s) instr(r);
        }
        const std::vector<Ref>& loop = loops_[static_cast<size_t>(s)];
        for (Ref r : loop) restart(r);
        if (loop.empty()) continue;
        for_each(RangeKind::Inner, [&] {
          for (Ref r : loop) instr(r);
        });
      }
    });
  }

 private:
  // Loads read the contents from before any store, but for buffers that are accessed in order.
  void keep_what_is_read() {
    before_.resize(extents_.size());
    for (const Instr& i : dag_.instrs()) {
      if (i.kind != InstrKind::Load) continue;
      const auto b = static_cast<size_t>(i.buffer);
      if (!dag_.buffers()[b].written || dag_.buffers()[b].in_order || !before_[b].empty()) continue;
      const char* from = static_cast<const char*>(reads_[b]);
      before_[b].assign(from, from + extents_[b] * element_size(i.dtype));
      reads_[b] = before_[b].data();
    }
  }

  // The instructions that the roots of this level need for each inner element. Nothing is kept from one level to the
  // next.
  std::vector<Ref> loop_of(int level) const {
    std::vector<char> wanted(dag_.instrs().size());
    for (Ref r : levels_.roots) wanted[r] = levels_.level[r] == level;
    for (Ref r = static_cast<Ref>(wanted.size()); r-- > 0;) {
      if (wanted[r]) dag_.for_each_operand(r, [&](Ref o) { wanted[o] |= levels_.inner[o]; });
    }
    std::vector<Ref> loop;
    for (Ref r = 0; r < wanted.size(); ++r) {
      if (wanted[r]) loop.push_back(r);
    }
    return loop;
  }

  // Calls fn for all values of the variables of one kind, the last range fastest.
  template <class F>
  void for_each(RangeKind kind, F&& body) {
    std::vector<std::pair<Expr, int64_t>> loops;
    int64_t count = 1;
    for (const Range& r : dag_.ranges()) {
      if (r.kind != kind) continue;
      loops.emplace_back(r.var, eval(r.extent));
      count *= loops.back().second;
    }
    for (int64_t at = 0; at < count; ++at) {
      int64_t rest = at;
      for (size_t i = loops.size(); i-- > 0;) {
        symbols_[loops[i].first] = rest % loops[i].second;
        rest /= loops[i].second;
      }
      body();
    }
  }

  void before_access(Ref r, int64_t element) override {
    const Instr& i = dag_.instrs()[r];
    const int64_t extent = extents_[static_cast<size_t>(i.buffer)];
    VESTA_CHECK(element >= 0 && element < extent, "instruction {} accesses b{}[{}], element {} of {}, of\n{}", r,
                i.buffer, to_string(i.index), element, extent, print(dag_));
  }

  const Dag& dag_;
  const Levels levels_;
  std::vector<int64_t> extents_;
  std::vector<std::vector<char>> before_;  // by buffer
  std::vector<std::vector<Ref>> loops_;    // by level
};

}  // namespace

void interpret(const Dag& dag, std::span<void* const> buffers, std::span<const int64_t> sizes) {
  Interpreter(dag, buffers, sizes).run();
}

}  // namespace vesta::loops
