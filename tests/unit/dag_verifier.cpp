#include <algorithm>
#include <bit>

#include "dag_reference.h"
#include "loops/levels.h"
#include "loops/rules.h"

namespace vesta::loops {

namespace {

class Verifier : Rules {
 public:
  explicit Verifier(const Dag& dag) : Rules("dag", dag.ranges(), dag.instrs()), dag_(dag) {}

  void run() {
    for (size_t i = 0; i < dag_.ranges().size(); ++i) {
      range(i);
      const Range& r = dag_.ranges()[i];
      has_inner_ |= r.kind == RangeKind::Inner;
      may_be_empty_ |= lower_bound(r.extent).value_or(0) < 1;
      require(r.var.node()->upper == r.extent - 1, "the variable of range {} runs over another extent", i);
      for (size_t k = 0; k < i; ++k) require(dag_.ranges()[k].var != r.var, "ranges {} and {} share a variable", k, i);
    }
    for (size_t b = 0; b < dag_.buffers().size(); ++b) buffer_rules(b);
    const std::vector<Instr>& in = dag_.instrs();
    for (Ref r = 0; r < in.size(); ++r) {
      const InstrKind kind = in[r].kind;
      require(kind != InstrKind::RowStore && kind != InstrKind::RowLoad, "instruction {} is one of a schedule", r);
      const auto elsewise = [&](const Instr& x) { return x.buffer == in[r].buffer && x.kind != InstrKind::StoreAdd; };
      require(kind != InstrKind::StoreAdd || (std::none_of(in.begin(), in.end(), elsewise) && !dag_.in_order()),
              "instruction {} adds to what others read or write", r);
      dag_.for_each_operand(r, [&](Ref o) { require(o < r, "instruction {} comes before its operand {}", r, o); });
    }
    require(!dag_.stores().empty(), "it does nothing");
    const Levels levels = levels_of(dag_);
    for (Ref r = 0; r < in.size(); ++r) {
      if (levels.live[r]) instr(r);
    }
  }

 private:
  void buffer_rules(size_t b) const {
    const DagBuffer& x = dag_.buffers()[b];
    const int64_t size = element_size(x.dtype);
    require(size > 0 && !is_complex(x.dtype), "buffer {} has type {}", b, name(x.dtype));
    symbols(x.extent, false, false);
    require(lower_bound(x.extent).value_or(-1) >= 0, "buffer {} has an extent that may be negative", b);
    require(x.alignment >= size && std::has_single_bit(static_cast<uint64_t>(x.alignment)),
            "buffer {} of {} is aligned to {} bytes", b, name(x.dtype), x.alignment);
  }

  std::string text() const override { return print(dag_); }
  bool visible(Ref r) const override { return r < ref_; }
  bool in_loop() const override { return has_inner_; }
  bool is_size(Expr symbol) const override { return symbol.node()->context == dag_.context().get(); }
  size_t buffer_count() const override { return dag_.buffers().size(); }

  KernelBuffer buffer(size_t b) const override {
    KernelBuffer out;
    out.dtype = dag_.buffers()[b].dtype;
    out.written = dag_.buffers()[b].written;
    return out;
  }

  void access(const Instr& i) const override {
    if (may_be_empty_ || i.in[i.kind == InstrKind::Load ? 0 : 1] != kNoRef) return;
    const bool outside =
        provably_less(i.index, 0) || provably_at_least(i.index, dag_.buffers()[static_cast<size_t>(i.buffer)].extent);
    require(!outside, "instruction {} is nowhere in the extent of its buffer", ref_);
  }

  void row(const Instr&) const override {}  // there is none

  void result(const Instr& i) const override {
    require(i.in[0] < ref_ && dag_.instrs()[i.in[0]].kind == InstrKind::Accumulate,
            "result {} does not name an accumulation", ref_);
    require(i.imm == 1 || i.dtype == dag_.instrs()[i.in[0]].dtype, "result {} has another type than its accumulation",
            ref_);
  }

  const Dag& dag_;
  bool has_inner_ = false, may_be_empty_ = false;
};

}  // namespace

void verify(const Dag& dag) { Verifier(dag).run(); }

}  // namespace vesta::loops
