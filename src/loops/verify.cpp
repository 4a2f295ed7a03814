#include <algorithm>

#include "loops/rules.h"

namespace vesta::loops {

namespace {

class Verifier : Rules {
 public:
  explicit Verifier(const Kernel& k) : Rules("kernel", k.ranges, k.instrs), k_(k), stage_of_(k.instrs.size(), -1) {}

  void run() {
    ranges();
    require(!k_.stages.empty(), "it does nothing");
    for (size_t s = 0; s < k_.stages.size(); ++s) {
      stage_ = static_cast<int>(s);
      for (Ref r : k_.stages[s].body) {
        require(r < k_.instrs.size(), "stage {} names instruction {} of {}", s, r, k_.instrs.size());
        require(stage_of_[r] < 0, "instruction {} is in two places", r);
        instr(r);
        stage_of_[r] = stage_;
      }
    }
  }

 private:
  void ranges() {
    bool inner = false;
    int last_parallel = -1;
    for (size_t i = 0; i < k_.ranges.size(); ++i) {
      range(i);
      if (k_.ranges[i].kind == RangeKind::Inner) {
        inner = true;
      } else {
        require(!inner, "parallel range {} comes after an inner one", i);
        last_parallel = static_cast<int>(i);
      }
    }
    require(k_.vector < static_cast<int>(k_.ranges.size()), "the vector range {} does not exist", k_.vector);
    if (k_.vector >= 0 && k_.ranges[static_cast<size_t>(k_.vector)].kind == RangeKind::Parallel) {
      require(k_.vector == last_parallel, "a parallel vector range must be the last parallel one");
      require(k_.block > 0, "a parallel vector range needs a block");
    }
  }

  std::string text() const override { return print(k_); }
  size_t buffer_count() const override { return k_.buffers.size(); }
  KernelBuffer buffer(size_t b) const override { return k_.buffers[b]; }
  bool in_loop() const override { return k_.stages[static_cast<size_t>(stage_)].loop; }

  bool is_size(Expr symbol) const override {
    return std::find(k_.sizes.begin(), k_.sizes.end(), symbol) != k_.sizes.end();
  }

  bool visible(Ref r) const override {
    if (r >= k_.instrs.size() || stage_of_[r] < 0) return false;
    if (stage_of_[r] == stage_) return true;
    InstrKind kind = k_.instrs[r].kind;
    return kind == InstrKind::Result || kind == InstrKind::Constant ||
           !k_.stages[static_cast<size_t>(stage_of_[r])].loop;
  }

  void access(const Instr& i) const override {
    const bool streams = k_.buffers[static_cast<size_t>(i.buffer)].stream;
    require(!streams || i.kind == InstrKind::Store, "instruction {} reads a buffer that is stored past the caches",
            ref_);
  }

  void result(const Instr& i) const override {
    bool earlier = i.in[0] < k_.instrs.size() && stage_of_[i.in[0]] >= 0 && stage_of_[i.in[0]] < stage_ &&
                   k_.instrs[i.in[0]].kind == InstrKind::Accumulate;
    require(earlier, "result {} does not name an accumulation of an earlier stage", ref_);
    require(i.imm == 1 || i.dtype == k_.instrs[i.in[0]].dtype, "result {} has another type than its accumulation",
            ref_);
  }

  void row(const Instr& i) const override {
    require(in_loop(), "row access {} outside a loop stage", ref_);
    require(i.slot >= 0 && i.slot < static_cast<int>(k_.row_slots.size()), "instruction {} has no row", ref_);
    require(k_.row_slots[static_cast<size_t>(i.slot)] == i.dtype, "instruction {} has another type than its row", ref_);
    if (i.kind == InstrKind::RowStore)
      require(same_or_widened(operand(i, 0), i.dtype), "rowstore {} changes the type", ref_);
  }

  const Kernel& k_;
  std::vector<int> stage_of_;
  int stage_ = 0;
};

}  // namespace

void verify(const Kernel& k) { Verifier(k).run(); }

}  // namespace vesta::loops
