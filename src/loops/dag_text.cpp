// Writes dags as text and reads them.
#include "base/check.h"
#include "loops/levels.h"
#include "loops/text_reader.h"
#include "loops/text_writer.h"

namespace vesta::loops {

namespace {

class Printer : TextWriter {
 public:
  explicit Printer(const Dag& dag) : TextWriter(dag.instrs()), dag_(dag) {}

  std::string run() {
    out_ = "dag\n";
    sizes(dag_.sizes());
    ranges(dag_.ranges());
    if (dag_.in_order()) out_ += "ordered\n";
    for (size_t i = 0; i < dag_.buffers().size(); ++i) {
      const DagBuffer& b = dag_.buffers()[i];
      out_ += fmt::format("buffer b{} {}[{}] {} align {} {}\n", i, name(b.dtype), text(b.extent),
                          to_string(Device{b.device}), b.alignment, b.written ? "write" : "read");
    }
    const Levels levels = levels_of(dag_);
    for (Ref r = 0; r < dag_.instrs().size(); ++r) {
      if (levels.live[r]) instr(r);
    }
    return std::move(out_);
  }

 private:
  const Dag& dag_;
};

class Parser : TextReader {
 public:
  explicit Parser(std::string_view text)
      : TextReader(text, std::make_shared<ExprContext>()), dag_(std::make_unique<Dag>(context_)) {}

  std::unique_ptr<Dag> run() {
    read("dag");
    return std::move(dag_);
  }

 private:
  void statement(std::string_view head) override {
    if (head == "size") {
      size();
    } else if (head == "range") {
      dag_->ranges().push_back(range());
    } else if (head == "ordered") {
      dag_->run_in_order();
    } else if (head == "buffer") {
      DagBuffer b;
      b.id = numbered('b');
      if (b.id != static_cast<int>(dag_->buffers().size())) fail("buffers must be numbered in order");
      b.dtype = parse_dtype(word());
      b.extent = index();
      b.device = parse_device(word()).type;
      expect("align");
      b.alignment = integer(word());
      b.written = writes();
      dag_->append(std::move(b));
    } else {
      instr(head);
    }
  }

  Ref add(Instr i) override { return dag_->append(std::move(i)); }

  std::unique_ptr<Dag> dag_;
};

}  // namespace

std::string print(const Dag& dag) { return Printer(dag).run(); }

std::unique_ptr<Dag> parse_dag(std::string_view text) { return Parser(text).run(); }

}  // namespace vesta::loops
