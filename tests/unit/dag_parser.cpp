#include "dag_reference.h"
#include "loops/text_reader.h"

namespace vesta::loops {

namespace {

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
      b.in_order = !at_end_of_line();
      if (b.in_order && (word() != "in" || word() != "order")) fail("expected the words \"in order\"");
      dag_->append(std::move(b));
    } else {
      instr(head);
    }
  }

  Ref add(Instr i) override { return dag_->append(std::move(i)); }

  std::unique_ptr<Dag> dag_;
};

}  // namespace

std::unique_ptr<Dag> parse_dag(std::string_view text) { return Parser(text).run(); }

}  // namespace vesta::loops
