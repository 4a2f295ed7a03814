#include "base/check.h"
#include "loops/online.h"
#include "loops/text_reader.h"

namespace vesta::loops {

namespace {

class Parser : TextReader {
 public:
  explicit Parser(std::string_view text)
      : TextReader(text, std::make_shared<ExprContext>()), kernel_(std::make_unique<Kernel>()) {
    kernel_->context = context_;
  }

  std::unique_ptr<Kernel> run() {
    read("kernel");
    return std::move(kernel_);
  }

 private:
  void statement(std::string_view head) override {
    Kernel& k = *kernel_;
    if (head == "size") {
      k.sizes.push_back(size());
    } else if (head == "range") {
      k.ranges.push_back(range());
    } else if (head == "vector") {
      k.vector = range_named(word());
      if (accept("lanes ")) k.lanes = integer(word());
    } else if (head == "block") {
      k.block = rest_expr();
    } else if (head == "serial") {
      k.serial = true;
    } else if (head == "threads") {
      k.threads.block = integer(word());
      expect("team");
      k.threads.team = integer(word());
      expect("held");
      k.threads.held = integer(word());
      expect("each");
      k.threads.each = integer(word());
      k.threads.across = accept("across");
      k.threads.shared = accept("shared");
      if (accept("parts ")) k.threads.parts = integer(word());
    } else if (head == "product") {
      k.product.rows = integer(word());
      expect("by");
      k.product.columns = integer(word());
      expect("stages");
      k.product.stages = integer(word());
      expect("parts");
      k.product.parts = integer(word());
    } else if (head == "registers") {
      k.registers.rows = integer(word());
      expect("by");
      k.registers.columns = integer(word());
      expect("rows");
      k.registers.row_block = number_or_index();
      expect("slice");
      k.registers.slice = number_or_index();
      k.registers.pairs = accept("pairs");
      if (accept("matrix ")) k.registers.depth = integer(word());
      k.registers.packs_rows = accept("packs rows");
      k.registers.packs_columns = accept("packs columns");
    } else if (head == "buffer") {
      if (numbered('b') != static_cast<int>(k.buffers.size())) fail("buffers must be numbered in order");
      KernelBuffer b;
      b.dtype = parse_dtype(word());
      b.written = writes();
      b.noalias = !accept("shared");
      b.stream = accept("stream");
      b.value = accept("value");
      if (accept("aligned ")) b.alignment = integer(word());
      b.constant = accept("constant");
      k.buffers.push_back(b);
    } else if (head == "row") {
      if (numbered('r') != static_cast<int>(k.row_slots.size())) fail("rows must be numbered in order");
      k.row_slots.push_back(parse_dtype(word()));
    } else if (head == "tile") {
      Tile& t = k.tile;
      t.row = k.ranges[static_cast<size_t>(range_named(word()))].var;
      t.rows = integer(word());
      expect("by");
      t.columns = integer(word());
      expect("pitch");
      t.pitch = integer(word());
      while (!at_end_of_line()) t.loads.push_back(value());
    } else if (head == "ahead") {
      k.ahead.row = k.ranges[static_cast<size_t>(range_named(word()))].var;
      k.ahead.rows = integer(word());
      while (!at_end_of_line()) k.ahead.loads.push_back(value());
    } else if (head == "online") {
      auto kind = OnlineKind::Exp;
      for (const OnlineKind k : {OnlineKind::FiniteExp, OnlineKind::Squares})
        if (accept(kOnlineKinds[static_cast<size_t>(k)])) kind = k;
      const Ref first = value();
      k.online.push_back({first, value(), kind});
    } else if (head == "stage") {
      k.stages.push_back({accept("loop"), {}});
    } else {
      if (k.stages.empty()) fail("expected a stage");
      instr(head);
    }
  }

  Ref add(Instr i) override {
    const Ref r = static_cast<Ref>(kernel_->instrs.size());
    kernel_->instrs.push_back(std::move(i));
    kernel_->stages.back().body.push_back(r);
    return r;
  }

  int range_named(std::string_view name) const {
    for (size_t i = 0; i < kernel_->ranges.size(); ++i) {
      if (kernel_->ranges[i].var.node()->name == name) return static_cast<int>(i);
    }
    fail(fmt::format("unknown range \"{}\"", name));
  }

  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

std::unique_ptr<Kernel> parse_kernel(std::string_view text) { return Parser(text).run(); }

}  // namespace vesta::loops
