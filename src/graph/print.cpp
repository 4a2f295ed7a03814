#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "graph/graph.h"
#include "graph/text.h"

namespace vesta::graph {
namespace {

// Everything is appended to one text: a program has a text of a hundred bytes for each operator, and every compile
// prints it for its key.
void add(std::string& out, int64_t i) {
  const fmt::format_int text(i);
  out.append(text.data(), text.size());
}

void add(std::string& out, Expr e) { e.is_constant() ? add(out, e.constant()) : void(out += to_string(e)); }

void add(std::string& out, double d) {
  if (std::isnan(d)) {
    out += "nan";
    return;
  }
  if (std::isinf(d)) {
    out += d < 0 ? "-inf" : "inf";
    return;
  }
  const size_t begin = out.size();
  fmt::format_to(std::back_inserter(out), "{}", d);
  if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
}

void add(std::string& out, const Value* v) {
  if (!v) {
    out += "none";
    return;
  }
  out += '%';
  add(out, int64_t{v->id});
}

void add_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

template <class List>
void add_list(std::string& out, char open, const List& list, char close) {
  out += open;
  bool first = true;
  for (const auto& x : list) {
    if (!std::exchange(first, false)) out += ", ";
    add(out, x);
  }
  out += close;
}

void add(std::string& out, const TensorType& t) {
  out += name(t.dtype);
  add_list(out, '[', t.sizes, ']');
  if (t.strides != contiguous_strides(t.sizes)) add_list(out, '{', t.strides, '}');
  if (t.device != Device{}) out.append("@").append(to_string(t.device));
}

// Appends the argument. An empty list has its kind before it.
struct ArgText {
  std::string& out;
  void operator()(None) const { out += "none"; }
  void operator()(const Value* v) const { add(out, v); }
  void operator()(const ValueList& l) const { list("value", l); }
  void operator()(bool b) const { out += b ? "true" : "false"; }
  void operator()(Expr e) const { add(out, e); }
  void operator()(const IntList& l) const { list("int", l); }
  void operator()(double d) const { add(out, d); }
  void operator()(const std::vector<double>& l) const { list("float", l); }
  void operator()(const std::vector<bool>& l) const {
    if (l.empty()) out += "bool";
    out += '[';
    for (size_t i = 0; i < l.size(); ++i) out.append(i ? ", " : "").append(l[i] ? "true" : "false");
    out += ']';
  }
  void operator()(std::complex<double> c) const {
    out += "complex(";
    add(out, c.real());
    out += ", ";
    add(out, c.imag());
    out += ')';
  }
  void operator()(const std::string& s) const { add_quoted(out, s); }
  void operator()(DType t) const { out.append("dtype.").append(name(t)); }
  void operator()(Device d) const { out.append("device.").append(to_string(d)); }
  void operator()(MemoryFormat f) const { out.append("format.").append(name(f)); }
  void operator()(Layout l) const { out += l == Layout::Strided ? "layout.strided" : "layout.other"; }

 private:
  template <class List>
  void list(std::string_view kind, const List& l) const {
    if (l.empty()) out += kind;
    add_list(out, '[', l, ']');
  }
};

std::string quoted(std::string_view text) {
  std::string out;
  add_quoted(out, text);
  return out;
}

std::string value(const Value* v) {
  std::string out;
  add(out, v);
  return out;
}

std::string type(const TensorType& t) {
  std::string out;
  add(out, t);
  return out;
}

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
    if (n.prepacked) out_ += "prepacked ";
    if (n.raises) out_ += "raises ";
    for (size_t i = 0; i < n.results.size(); ++i) {
      if (i > 0) out_ += ", ";
      const Value* v = n.results[i];
      if (!v) {
        out_ += '_';
        continue;
      }
      add(out_, v);
      out_ += " : ";
      add(out_, v->type);
    }
    if (!n.results.empty()) out_ += " = ";
    out_ += n.op->name;
    out_ += '(';
    bool first = true;
    const size_t positional = explicit_positional(n);
    for (size_t i = 0; i < n.args().size(); ++i) {
      const SchemaArg& schema = n.op->schema.args[i];
      if (schema.keyword_only ? is_implied(schema, n.args()[i]) : i >= positional) continue;
      if (!std::exchange(first, false)) out_ += ", ";
      if (schema.keyword_only) out_.append(schema.name).append("=");
      std::visit(ArgText{out_}, n.args()[i]);
    }
    out_ += ')';
    if (!n.source.empty()) {
      out_ += " @ ";
      add_quoted(out_, n.source);
    }
    out_ += '\n';
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

std::string text(const Arg& arg) {
  std::string out;
  std::visit(ArgText{out}, arg);
  return out;
}

std::string print(const Graph& graph) { return Printer(graph, false).run(); }

std::string print_every_argument(const Graph& graph) { return Printer(graph, true).run(); }

}  // namespace vesta::graph
