#include <algorithm>

#include "base/check.h"
#include "evaluator.h"
#include "kernel_reference.h"

namespace vesta::loops {

namespace {

class Interpreter : Evaluator {
 public:
  Interpreter(const Kernel& k, std::span<void* const> buffers, std::span<const int64_t> sizes)
      : Evaluator(k.instrs, buffers, k.sizes, sizes), k_(k), rows_(k.row_slots.size()) {
    VESTA_CHECK(buffers.size() == k.buffers.size(), "kernel called with wrong arguments");
    for (const Range& r : k.ranges) extents_.push_back(eval(r.extent));
    inner_elements_ = 1;
    for (size_t i = 0; i < k.ranges.size(); ++i) {
      if (k.ranges[i].kind == RangeKind::Inner) inner_elements_ *= extents_[i];
    }
    for (auto& row : rows_) row.resize(static_cast<size_t>(inner_elements_));
  }

  void run(int64_t begin, int64_t end) {
    const int64_t column_block = eval(k_.block), row_block = k_.registers.rows > 0 ? eval(k_.registers.row_block) : 0;
    bool columns =
        k_.vector >= 0 && column_block > 0 && k_.ranges[static_cast<size_t>(k_.vector)].kind == RangeKind::Parallel;
    for (int64_t item = begin; item < end; ++item) {
      int64_t rest = item, first = 0, last = 1, first_row = 0, last_row = 1;
      for (size_t i = k_.ranges.size(); i-- > 0;) {
        if (k_.ranges[i].kind != RangeKind::Parallel) continue;
        bool blocked = columns && static_cast<int>(i) == k_.vector;
        const bool rows = k_.registers.rows > 0 && static_cast<int>(i) + 1 == k_.vector;
        const int64_t block = blocked ? column_block : rows ? row_block : 1;
        int64_t count = (extents_[i] + block - 1) / block;
        int64_t at = rest % count;
        rest /= count;
        if (blocked) {
          first = at * block;
          last = std::min(first + block, extents_[i]);
        } else if (rows) {
          first_row = at * block;
          last_row = std::min(first_row + block, extents_[i]);
        } else {
          symbols_[k_.ranges[i].var] = at;
        }
      }
      for (int64_t row = first_row; row < last_row; ++row) {
        if (k_.registers.rows > 0) symbols_[k_.ranges[static_cast<size_t>(k_.vector) - 1].var] = row;
        for (int64_t column = first; column < last; ++column) {
          if (columns) symbols_[k_.ranges[static_cast<size_t>(k_.vector)].var] = column;
          stages();
        }
      }
    }
  }

 private:
  void stages() {
    restart();
    for (const Stage& s : k_.stages) {
      if (!s.loop) {
        for (Ref r : s.body) instr(r, 0);
        continue;
      }
      for (int64_t at = 0; at < inner_elements_; ++at) {
        int64_t rest = at;
        for (size_t i = k_.ranges.size(); i-- > 0;) {
          if (k_.ranges[i].kind != RangeKind::Inner) continue;
          symbols_[k_.ranges[i].var] = rest % extents_[i];
          rest /= extents_[i];
        }
        for (Ref r : s.body) instr(r, at);
      }
    }
  }

  void instr(Ref r, int64_t at) {
    const Instr& i = k_.instrs[r];
    if (i.kind == InstrKind::RowStore) {
      row(i, at) = cast(value_type(k_, i.in[0]), i.dtype, operand(i, 0));
    } else if (i.kind == InstrKind::RowLoad) {
      values_[r] = row(i, at);
    } else {
      Evaluator::instr(r);
    }
  }

  Scalar& row(const Instr& i, int64_t at) { return rows_[static_cast<size_t>(i.slot)][static_cast<size_t>(at)]; }

  const Kernel& k_;
  std::vector<int64_t> extents_;
  int64_t inner_elements_ = 1;
  std::vector<std::vector<Scalar>> rows_;
};

}  // namespace

void interpret(const Kernel& k, std::span<void* const> buffers, std::span<const int64_t> sizes, int64_t begin,
               int64_t end) {
  Interpreter(k, buffers, sizes).run(begin, end);
}

}  // namespace vesta::loops
