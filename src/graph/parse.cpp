#include <charconv>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/text_cursor.h"
#include "graph/graph.h"
#include "graph/text.h"

namespace vesta::graph {
namespace {

class Parser : TextCursor {
 public:
  explicit Parser(std::string_view text) : TextCursor(text, " \t\r", '#'), graph_(std::make_unique<Graph>()) {}

  std::unique_ptr<Graph> run() {
    try {
      while (true) {
        skip_lines();
        if (pos_ == text_.size()) break;
        statement();
        end_of_line();
      }
    } catch (const InternalError& e) {  // no graph can hold this text
      fail(e.what());
    }
    return std::move(graph_);
  }

 private:
  // ---- Tokens

  [[noreturn]] void fail(std::string_view message) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < pos_ && i < text_.size(); ++i) {
      ++column;
      if (text_[i] == '\n') ++line, column = 1;
    }
    throw UserError(fmt::format("graph text, line {}, column {}: {}", line, column, message));
  }
  void skip_lines() {
    while (accept("\n")) {
    }
  }
  void end_of_line() {
    if (!at_end() && here() != '\n') fail("expected the end of the line");
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("expected '{}'", token));
  }
  std::string_view peek_word() { return peek_while(is_word_character); }
  bool accept_word(std::string_view w) {
    if (peek_word() != w) return false;
    pos_ += w.size();
    return true;
  }
  void expect_word(std::string_view w) {
    if (!accept_word(w)) fail(fmt::format("expected '{}'", w));
  }
  std::string_view word(std::string_view wanted) {
    const std::string_view w = peek_word();
    if (w.empty()) fail(fmt::format("expected {}", wanted));
    pos_ += w.size();
    return w;
  }
  int64_t integer() {
    skip_blanks();
    int64_t v = 0;
    const auto [end, error] = std::from_chars(text_.data() + pos_, text_.data() + text_.size(), v);
    if (error != std::errc()) fail("expected an integer");
    pos_ = end - text_.data();
    return v;
  }
  std::string string() {
    if (peek() != '"') fail("expected a string");
    ++pos_;
    std::string s;
    while (pos_ < text_.size() && text_[pos_] != '"') {
      char c = text_[pos_++];
      if (c == '\\' && pos_ < text_.size()) {
        c = text_[pos_++];
        if (c == 'x') {
          int code = 0;
          if (pos_ + 2 > text_.size() ||
              std::from_chars(text_.data() + pos_, text_.data() + pos_ + 2, code, 16).ec != std::errc())
            fail("expected two hexadecimal digits");
          pos_ += 2;
          c = static_cast<char>(code);
        }
      }
      s += c;
    }
    if (pos_ == text_.size()) fail("a string without end");
    ++pos_;
    return s;
  }
  std::string source() { return accept("@") ? string() : std::string(); }

  // The text of an expression: it ends at one of `stops`, at a comma, or at a closing bracket outside parentheses.
  std::string_view expression_text(std::string_view stops) {
    skip_blanks();
    const size_t begin = pos_;
    int depth = 0;
    while (pos_ < text_.size()) {
      const char c = text_[pos_];
      if (c == '\n' || c == '@' || c == '"' || c == '#') break;
      if (depth == 0 && (c == ',' || c == ')' || c == ']' || c == '}' || stops.find(c) != std::string_view::npos))
        break;
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      ++pos_;
    }
    size_t end = pos_;
    while (end > begin && text_[end - 1] == ' ') --end;
    return text_.substr(begin, end - begin);
  }
  Expr expression(std::string_view stops = "") {
    const std::string_view t = expression_text(stops);
    return expression_of(t);
  }
  Expr expression_of(std::string_view t) {
    if (const auto v = number_in<int64_t>(t)) return *v;
    try {
      return parse_expr(*graph_->context, t);
    } catch (const UserError& e) {
      fail(e.what());
    }
  }

  Value* value() {
    expect("%");
    const int64_t id = integer();
    const auto it = values_.find(id);
    if (it == values_.end()) fail(fmt::format("%{} is not defined", id));
    return it->second;
  }
  void define(int64_t id, Value* v) {
    if (!values_.emplace(id, v).second) fail(fmt::format("%{} is defined twice", id));
  }

  std::vector<Expr> expressions(std::string_view close) {
    std::vector<Expr> es;
    if (accept(close)) return es;
    do es.push_back(expression());
    while (accept(","));
    expect(close);
    return es;
  }
  TensorType type() {
    TensorType t;
    t.dtype = parse_dtype(word("a dtype"));
    expect("[");
    t.sizes = expressions("]");
    t.strides = accept("{") ? expressions("}") : contiguous_strides(t.sizes);
    if (accept("@")) t.device = device();
    return t;
  }
  Device device() {
    return parse_device(take_while([](char c) { return is_word_character(c) || c == ':'; }));
  }

  // ---- Statements

  void statement() {
    const std::string_view w = peek_word();
    if (w == "symbol") return symbol();
    if (w == "source") return symbol_source();
    if (w == "input") return input();
    if (w == "guard") return guard();
    if (w == "mutate") return mutation();
    if (w == "output") return output();
    node();
  }

  void symbol() {
    expect_word("symbol");
    const std::string name(word("a symbol"));
    expect("=");
    const int64_t hint = integer();
    expect(",");
    expect_word("at");
    expect_word("least");
    graph_->context->size_symbol(name, hint, integer());
  }

  void symbol_source() {
    expect_word("source");
    SymbolSource s;
    s.symbol = expression_of(word("a symbol"));
    expect("=");
    if (accept_word("integer")) {
      s.dim = static_cast<int>(integer());
    } else {
      s.stride = accept_word("stride");
      if (!s.stride) expect_word("size");
      s.dim = static_cast<int>(integer());
      expect_word("of");
      expect_word("input");
      s.input = static_cast<int>(integer());
    }
    graph_->symbols.push_back(s);
  }

  void input() {
    expect_word("input");
    expect("%");
    const int64_t id = integer();
    expect(":");
    TensorType t = type();
    expect("=");
    const std::string_view kind = word("argument or parameter");
    for (size_t i = 0; i < kInputKindTexts.size(); ++i) {
      if (kInputKindTexts[i] != kind) continue;
      std::string name = string();
      define(id, graph_->add_input(std::move(t), static_cast<InputKind>(i), std::move(name)));
      if (accept("aligned")) graph_->inputs.back().alignment = integer();
      return;
    }
    fail("expected argument or parameter");
  }

  void guard() {
    expect_word("guard");
    Guard g;
    g.left = expression("<>=!");
    size_t relation = 0;
    while (relation < kRelationTexts.size() && !accept(kRelationTexts[relation])) ++relation;
    if (relation == kRelationTexts.size()) fail("expected ==, !=, < or >=");
    g.relation = static_cast<Relation>(relation);
    g.right = expression();
    g.source = source();
    graph_->guards.push_back(std::move(g));
  }

  void mutation() {
    expect_word("mutate");
    expect_word("input");
    Mutation m;
    m.input = static_cast<int>(integer());
    expect("=");
    m.value = value();
    graph_->mutations.push_back(m);
  }

  void output() {
    expect_word("output");
    Output o;
    if (accept_word("none")) {
      o.kind = OutputKind::None;
    } else if (accept_word("integer")) {
      o.kind = OutputKind::Integer;
      o.integer = expression();
    } else if (accept_word("input")) {
      o.kind = OutputKind::Input;
      o.alias = static_cast<int>(integer());
      if (accept_word("as")) o.value = value();
    } else if (accept_word("view")) {
      expect_word("of");
      o.kind = accept_word("input") ? OutputKind::InputView : OutputKind::OutputView;
      if (o.kind == OutputKind::OutputView) expect_word("output");
      o.alias = static_cast<int>(integer());
      expect(":");
      o.type = type();
      o.conj_neg.conj = accept_word("conj");
      o.conj_neg.neg = accept_word("neg");
      o.absolute_offset = accept_word("at");
      if (!o.absolute_offset) expect_word("offset");
      const size_t line_end = std::min(text_.find('\n', pos_), text_.size());
      const size_t as = text_.substr(pos_, line_end - pos_).find(" as %");
      const size_t end = as == std::string_view::npos ? line_end : pos_ + as;
      std::string_view offset = text_.substr(pos_, end - pos_);
      if (const size_t comment = offset.find('#'); comment != std::string_view::npos)
        offset = offset.substr(0, comment);
      o.storage_offset = expression_of(trimmed(offset));
      pos_ = end;
      if (accept_word("as")) o.value = value();
    } else {
      o.hidden = accept_word("hidden");
      o.value = value();
    }
    graph_->outputs.push_back(std::move(o));
  }

  static std::string_view trimmed(std::string_view s) {
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
    return s;
  }

  void node() {
    const bool prepacked = accept_word("prepacked");
    const bool raises = accept_word("raises");
    std::vector<TensorType> types;
    std::vector<int64_t> ids;
    if (peek() == '%' || peek_word() == "_") {
      do {
        if (accept_word("_")) {
          ids.push_back(-1);
          types.emplace_back();
          continue;
        }
        expect("%");
        ids.push_back(integer());
        expect(":");
        types.push_back(type());
      } while (accept(","));
      expect("=");
    }
    skip_blanks();
    const std::string_view name = take_while([](char c) { return is_word_character(c) || c == ':' || c == '.'; });
    const Op* op = find_op(name);
    if (!op) fail(fmt::format("no operator '{}'", name));
    Node* n = graph_->add_node(*op, args(*op), std::move(types));
    n->prepacked = prepacked;
    n->raises = raises;
    n->source = source();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0) {
        n->results[i] = nullptr;
      } else {
        define(ids[i], n->results[i]);
      }
    }
  }

  std::vector<Arg> args(const Op& op) {
    const auto& schema = op.schema.args;
    std::vector<Arg> args(schema.size());
    std::vector<bool> given(schema.size());
    expect("(");
    size_t position = 0;
    if (!accept(")")) {
      do {
        const std::string_view w = peek_word();
        const size_t after = pos_ + w.size();
        size_t i = position;
        if (!w.empty() && after < text_.size() && text_[after] == '=') {
          const int index = op.schema.index_of(w);
          if (index < 0) fail(fmt::format("{} has no argument '{}'", op.name, w));
          i = static_cast<size_t>(index);
          pos_ = after + 1;
        } else {
          ++position;
        }
        if (i >= schema.size() || (position == i + 1 && schema[i].keyword_only))
          fail(fmt::format("too many arguments for {}", op.name));
        if (given[i]) fail(fmt::format("argument '{}' is given twice", schema[i].name));
        args[i] = arg();
        given[i] = true;
      } while (accept(","));
      expect(")");
    }
    for (size_t i = 0; i < schema.size(); ++i) {
      if (given[i]) continue;
      if (schema[i].has_default) {
        args[i] = schema[i].default_value;
      } else if (!schema[i].optional) {
        fail(fmt::format("{} needs its argument '{}'", op.name, schema[i].name));
      }
    }
    return args;
  }

  static bool is_float_text(std::string_view t) {
    if (t == "nan" || t == "inf" || t == "-inf") return true;
    if (t.empty() || !((t[0] >= '0' && t[0] <= '9') || t[0] == '-' || t[0] == '+')) return false;
    return t.find_first_of(".e") != std::string_view::npos && number_in<double>(t);
  }
  double number_of(std::string_view t) const {
    if (t == "nan") return std::nan("");
    if (t == "inf" || t == "-inf") return t[0] == '-' ? -HUGE_VAL : HUGE_VAL;
    return number_in<double>(t).value_or(0);
  }

  Arg arg() {
    const char c = peek();
    if (c == '%') return value();
    if (c == '"') return string();
    if (c == '[') return list();
    const std::string_view w = peek_word();
    const char after = pos_ + w.size() < text_.size() ? text_[pos_ + w.size()] : '\0';
    if (after == '.' && !w.empty() && !(w[0] >= '0' && w[0] <= '9')) return enumerator(w);
    if (after == '[') return empty_list(w);
    if (accept_word("none")) return None{};
    if (accept_word("true")) return true;
    if (accept_word("false")) return false;
    if (accept_word("complex")) {
      expect("(");
      const double re = number_of(expression_text(""));
      expect(",");
      const double im = number_of(expression_text(""));
      expect(")");
      return std::complex<double>(re, im);
    }
    const std::string_view t = expression_text("");
    if (is_float_text(t)) return number_of(t);
    return expression_of(t);
  }

  Arg enumerator(std::string_view kind) {
    pos_ += kind.size() + 1;
    if (kind == "device") return device();
    const std::string_view w = word("a name");
    if (kind == "dtype") return parse_dtype(w);
    if (kind == "format") return parse_memory_format(w);
    if (kind == "layout" && w == "strided") return Layout::Strided;
    if (kind == "layout" && w == "other") return Layout::Other;
    fail(fmt::format("no kind of argument '{}.{}'", kind, w));
  }

  Arg empty_list(std::string_view kind) {
    pos_ += kind.size();
    expect("[");
    expect("]");
    if (kind == "value") return ValueList{};
    if (kind == "int") return IntList{};
    if (kind == "float") return std::vector<double>{};
    if (kind == "bool") return std::vector<bool>{};
    fail(fmt::format("no kind of list '{}'", kind));
  }

  Arg list() {
    expect("[");
    ValueList values;
    IntList ints;
    std::vector<double> floats;
    std::vector<bool> bools;
    size_t count = 0;
    do {
      ++count;
      if (peek() == '%') {
        values.push_back(value());
      } else if (accept_word("none")) {
        values.push_back(nullptr);
      } else if (peek_word() == "true" || peek_word() == "false") {
        bools.push_back(word("a bool") == "true");
      } else {
        const std::string_view t = expression_text("");
        if (is_float_text(t)) {
          floats.push_back(number_of(t));
        } else {
          ints.push_back(expression_of(t));
        }
      }
    } while (accept(","));
    expect("]");
    if (values.size() == count) return values;
    if (ints.size() == count) return ints;
    if (floats.size() == count) return floats;
    if (bools.size() == count) return bools;
    fail("a list of mixed kinds");
  }

  std::unique_ptr<Graph> graph_;
  std::unordered_map<int64_t, Value*> values_;
};

}  // namespace

std::unique_ptr<Graph> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace vesta::graph
