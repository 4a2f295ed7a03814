#include "loops/online.h"
#include "loops/text_writer.h"

namespace vesta::loops {

namespace {

class Printer : TextWriter {
 public:
  explicit Printer(const Kernel& k) : TextWriter(k.instrs), k_(k) {}

  std::string run() {
    out_ = "kernel\n";
    sizes(k_.sizes);
    ranges(k_.ranges);
    if (k_.vector >= 0) {
      const Expr var = k_.ranges.at(static_cast<size_t>(k_.vector)).var;
      out_ += fmt::format("vector {}{}\n", names_.at(var), k_.lanes > 1 ? fmt::format(" lanes {}", k_.lanes) : "");
    }
    if (!k_.block.is_constant(0)) out_ += fmt::format("block {}\n", text(k_.block));
    if (k_.serial) out_ += "serial\n";
    if (k_.threads.block > 0)
      out_ +=
          fmt::format("threads {} team {} held {} each {}{}{}{}\n", k_.threads.block, k_.threads.team, k_.threads.held,
                      k_.threads.each, k_.threads.across ? " across" : "", k_.threads.shared ? " shared" : "",
                      k_.threads.parts > 1 ? fmt::format(" parts {}", k_.threads.parts) : "");
    if (const ProductTile& p = k_.product; p.rows > 0)
      out_ += fmt::format("product {} by {} stages {} parts {}\n", p.rows, p.columns, p.stages, p.parts);
    if (const RegisterTile& t = k_.registers; t.rows > 0)
      out_ +=
          fmt::format("registers {} by {} rows {} slice {}{}{}{}{}\n", t.rows, t.columns, in_line(t.row_block),
                      in_line(t.slice), t.pairs ? " pairs" : "", t.depth > 0 ? fmt::format(" matrix {}", t.depth) : "",
                      t.packs_rows ? " packs rows" : "", t.packs_columns ? " packs columns" : "");
    for (size_t i = 0; i < k_.buffers.size(); ++i) {
      const KernelBuffer& b = k_.buffers[i];
      out_ +=
          fmt::format("buffer b{} {} {}{}{}{}{}{}\n", i, name(b.dtype), b.written ? "write" : "read",
                      b.noalias ? "" : " shared", b.stream ? " stream" : "", b.value ? " value" : "",
                      b.alignment > 1 ? fmt::format(" aligned {}", b.alignment) : "", b.constant ? " constant" : "");
    }
    for (size_t i = 0; i < k_.row_slots.size(); ++i) out_ += fmt::format("row r{} {}\n", i, name(k_.row_slots[i]));
    for (const Stage& s : k_.stages) {
      out_ += s.loop ? "stage loop\n" : "stage\n";
      for (Ref r : s.body) instr(r);
    }
    const Tile& t = k_.tile;
    if (t.rows > 0) {
      out_ += fmt::format("tile {} {} by {} pitch {}", text(t.row), t.rows, t.columns, t.pitch);
      loads(t.loads);
    }
    if (!k_.ahead.loads.empty()) {
      out_ += fmt::format("ahead {} {}", text(k_.ahead.row), k_.ahead.rows);
      loads(k_.ahead.loads);
    }
    for (const Online& o : k_.online)
      out_ += fmt::format("online {}{} {}\n", kOnlineKinds[static_cast<size_t>(o.kind)], value(o.first), value(o.sum));
    return std::move(out_);
  }

 private:
  // An expression that does not end its line.
  std::string in_line(Expr e) const { return e.is_constant() ? text(e) : fmt::format("[{}]", text(e)); }
  void loads(const std::vector<Ref>& loads) {
    for (Ref r : loads) out_ += " " + value(r);
    out_ += "\n";
  }

  const Kernel& k_;
};

}  // namespace

std::string print(const Kernel& k) { return Printer(k).run(); }

}  // namespace vesta::loops
