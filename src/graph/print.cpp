#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/join.h"
#include "graph/graph.h"
#include "graph/text.h"

namespace vesta::graph {
namespace {

std::string quoted(std::string_view text) {
  std::string s = "\"";
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      s += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      continue;
    }
    if (c == '"' || c == '\\') s += '\\';
    s += c;
  }
  return s + '"';
}

std::string number(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  std::string s = fmt::format("{}", d);
  return s.find_first_of(".e") == std::string::npos ? s + ".0" : s;
}

std::string value(const Value* v) { return v ? fmt::format("%{}", v->id) : "none"; }

template <class List, class F>
std::string items(std::string_view kind, const List& list, F&& text) {
  return (list.empty() ? std::string(kind) : "") + '[' + join(list, text) + ']';
}

struct ArgText {
  std::string operator()(None) const { return "none"; }
  std::string operator()(const Value* v) const { return value(v); }
  std::string operator()(const ValueList& l) const { return items("value", l, value); }
  std::string operator()(bool b) const { return b ? "true" : "false"; }
  std::string operator()(Expr e) const { return to_string(e); }
  std::string operator()(const IntList& l) const {
    return items("int", l, [](Expr e) { return to_string(e); });
  }
  std::string operator()(double d) const { return number(d); }
  std::string operator()(const std::vector<double>& l) const { return items("float", l, number); }
  std::string operator()(const std::vector<bool>& l) const {
    return items("bool", l, [](bool b) { return std::string(b ? "true" : "false"); });
  }
  std::string operator()(std::complex<double> c) const {
    return fmt::format("complex({}, {})", number(c.real()), number(c.imag()));
  }
  std::string operator()(const std::string& s) const { return quoted(s); }
  std::string operator()(DType t) const { return fmt::format("dtype.{}", name(t)); }
  std::string operator()(Device d) const { return fmt::format("device.{}", to_string(d)); }
  std::string operator()(MemoryFormat f) const { return fmt::format("format.{}", name(f)); }
  std::string operator()(Layout l) const { return l == Layout::Strided ? "layout.strided" : "layout.other"; }
};

class Printer {
 public:
  Printer(const Graph& graph, bool every_argument) : graph_(graph), every_argument_(every_argument) {}

  std::string run() {
    for (Expr s : graph_.context->symbols()) {
      const ExprNode& n = *s.node();
      if (n.symbol_kind == SymbolKind::Size) line("symbol {} = {}, at least {}", n.name, n.hint, n.lower);
    }
    for (const SymbolSource& s : graph_.symbols) {
      if (s.input < 0) {
        line("source {} = integer {}", to_string(s.symbol), s.dim);
      } else {
        line("source {} = {} {} of input {}", to_string(s.symbol), s.stride ? "stride" : "size", s.dim, s.input);
      }
    }
    for (const Input& i : graph_.inputs)
      line("input %{} : {} = {} {}{}", i.value->id, type(i.value->type), kInputKindTexts[static_cast<int>(i.kind)],
           quoted(i.name), i.alignment > 1 ? fmt::format(" aligned {}", i.alignment) : "");
    for (const Guard& g : graph_.guards) {
      line("guard {} {} {}{}", to_string(g.left), kRelationTexts[static_cast<int>(g.relation)], to_string(g.right),
           g.source.empty() ? "" : " @ " + quoted(g.source));
    }
    graph_.for_each_node([&](const Node* n) { node(*n); });
    for (const Mutation& m : graph_.mutations) line("mutate input {} = %{}", m.input, m.value->id);
    for (const Output& o : graph_.outputs) output(o);
    return std::move(out_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  static std::string list(std::span<const Expr> es, char open, char close) {
    return open + join(es, [](Expr e) { return to_string(e); }) + close;
  }

  static std::string type(const TensorType& t) {
    std::string s = std::string(name(t.dtype)) + list(t.sizes, '[', ']');
    if (t.strides != contiguous_strides(t.sizes)) s += list(t.strides, '{', '}');
    if (t.device != Device{}) s += '@' + to_string(t.device);
    return s;
  }

  // The arguments without the trailing ones that the parser fills in by itself.
  size_t explicit_positional(const Node& n) const {
    const auto& schema = n.op->schema.args;
    size_t count = 0;
    for (size_t i = 0; i < n.args().size(); ++i)
      if (!schema[i].keyword_only && !is_implied(schema[i], n.args()[i])) count = i + 1;
    return count;
  }
  bool is_implied(const SchemaArg& schema, const Arg& arg) const {
    if (every_argument_) return false;
    return schema.has_default ? schema.default_value == arg : schema.optional && is_none(arg) && schema.keyword_only;
  }

  void node(const Node& n) {
    std::string s;
    if (n.prepacked) s += "prepacked ";
    if (n.raises) s += "raises ";
    s += join(n.results, [](const Value* v) { return v ? fmt::format("%{} : {}", v->id, type(v->type)) : "_"; });
    if (!n.results.empty()) s += " = ";
    s += n.op->name;
    s += '(';
    bool first = true;
    const size_t positional = explicit_positional(n);
    for (size_t i = 0; i < n.args().size(); ++i) {
      const SchemaArg& schema = n.op->schema.args[i];
      if (schema.keyword_only ? is_implied(schema, n.args()[i]) : i >= positional) continue;
      if (!std::exchange(first, false)) s += ", ";
      if (schema.keyword_only) s += schema.name + '=';
      s += text(n.args()[i]);
    }
    s += ')';
    if (!n.source.empty()) s += " @ " + quoted(n.source);
    line("{}", s);
  }

  void output(const Output& o) {
    switch (o.kind) {
      case OutputKind::Fresh: line("output {}{}", o.hidden ? "hidden " : "", value(o.value)); return;
      case OutputKind::Input: line("output input {}{}", o.alias, o.value ? " as " + value(o.value) : ""); return;
      case OutputKind::InputView:
      case OutputKind::OutputView:
        line("output view of {} {} : {}{}{} {} {}{}", o.kind == OutputKind::InputView ? "input" : "output", o.alias,
             type(o.type), o.conj_neg.conj ? " conj" : "", o.conj_neg.neg ? " neg" : "",
             o.absolute_offset ? "at" : "offset", to_string(o.storage_offset), o.value ? " as " + value(o.value) : "");
        return;
      case OutputKind::Integer: line("output integer {}", to_string(o.integer)); return;
      case OutputKind::None: line("output none"); return;
    }
  }

  const Graph& graph_;
  const bool every_argument_;
  std::string out_;
};

}  // namespace

std::string text(const Arg& arg) { return std::visit(ArgText{}, arg); }

std::string print(const Graph& graph) { return Printer(graph, false).run(); }

std::string print_every_argument(const Graph& graph) { return Printer(graph, true).run(); }

}  // namespace vesta::graph
