#include "loops/dag.h"
#include "loops/levels.h"
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
    for (size_t i = 0; i < dag_.buffers().size(); ++i) {
      const DagBuffer& b = dag_.buffers()[i];
      out_ += fmt::format("buffer b{} {}[{}] {} align {} {}{}\n", i, name(b.dtype), text(b.extent),
                          to_string(Device{b.device}), b.alignment, b.written ? "write" : "read",
                          b.in_order ? " in order" : "");
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

}  // namespace

std::string print(const Dag& dag) { return Printer(dag).run(); }

}  // namespace vesta::loops
