#include "graph/schema.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/text_cursor.h"

namespace vesta::graph {
namespace {

struct BaseType {
  std::string_view name;
  ArgType scalar;
  ArgType list;
};

// Types whose list form is Other have no list form in ATen.
constexpr BaseType kBaseTypes[] = {
    {"Tensor", ArgType::Tensor, ArgType::TensorList},
    {"int", ArgType::Int, ArgType::IntList},
    {"SymInt", ArgType::Int, ArgType::IntList},
    {"float", ArgType::Float, ArgType::FloatList},
    {"SymFloat", ArgType::Float, ArgType::FloatList},
    {"bool", ArgType::Bool, ArgType::BoolList},
    {"SymBool", ArgType::Bool, ArgType::BoolList},
    {"Scalar", ArgType::Scalar, ArgType::ScalarList},
    {"number", ArgType::Scalar, ArgType::ScalarList},
    {"complex", ArgType::Scalar, ArgType::ScalarList},
    {"str", ArgType::String, ArgType::Other},
    {"ScalarType", ArgType::DType, ArgType::Other},
    {"Layout", ArgType::Layout, ArgType::Other},
    {"Device", ArgType::Device, ArgType::Other},
    {"MemoryFormat", ArgType::MemoryFormat, ArgType::Other},
    {"Generator", ArgType::Generator, ArgType::Other},
    {"Storage", ArgType::Storage, ArgType::Other},
};

// Words for the integers 0, 1, ... in registered schemas.
constexpr std::string_view kReductions[] = {"None", "Mean", "Sum"};

// c10::ScalarType and c10::MemoryFormat by number, as defaults in registered schemas hold them.
DType dtype_of_number(int64_t n) {
  constexpr DType kTypes[] = {DType::U8,  DType::I8,  DType::I16, DType::I32, DType::I64,  DType::F16,
                              DType::F32, DType::F64, DType::C32, DType::C64, DType::C128, DType::Bool};
  if (n >= 0 && n < static_cast<int64_t>(std::size(kTypes))) return kTypes[n];
  return n == 15 ? DType::BF16 : DType::Other;
}

class SchemaParser : TextCursor {
 public:
  explicit SchemaParser(std::string_view text) : TextCursor(text, " \t\n") {}

  Schema parse() {
    Schema s;
    skip_blanks();
    const size_t begin = pos_;
    while (pos_ < text_.size() && text_[pos_] != '(' && text_[pos_] != ' ') ++pos_;
    s.name = text_.substr(begin, pos_ - begin);
    if (s.name.empty()) fail("an operator name");
    expect('(');
    parse_args(s);
    if (!accept("->")) fail("'->'");
    parse_returns(s);
    skip_blanks();
    if (pos_ != text_.size()) fail("the end");
    return s;
  }

 private:
  [[noreturn]] void fail(std::string_view wanted) const {
    throw UserError(fmt::format("operator schema: expected {} at position {} of \"{}\"", wanted, pos_, text_));
  }
  void expect(char c) {
    if (!accept(std::string_view(&c, 1))) fail(fmt::format("'{}'", c));
  }
  static bool is_word(char c) { return is_word_character(c) || c == '.'; }
  std::string_view word() { return take_while(is_word); }

  void parse_args(Schema& s) {
    bool keyword_only = false;
    if (accept(")")) return;
    do {
      if (accept("...")) continue;
      if (accept("*")) {
        keyword_only = true;
        continue;
      }
      SchemaArg a;
      static_cast<SchemaType&>(a) = parse_type();
      a.keyword_only = keyword_only;
      a.name = word();
      if (a.name.empty()) fail("an argument name");
      if (accept("=")) {
        a.has_default = true;
        a.default_value = parse_default(a);
      }
      s.args.push_back(std::move(a));
    } while (accept(","));
    expect(')');
  }

  void parse_returns(Schema& s) {
    if (accept("...")) return;
    if (!accept("(")) {
      s.returns.push_back(parse_return());
      return;
    }
    if (accept(")")) return;
    do {
      if (accept("...")) continue;
      s.returns.push_back(parse_return());
    } while (accept(","));
    expect(')');
  }

  SchemaReturn parse_return() {
    SchemaType type = parse_type();
    return {std::move(type), std::string(word())};
  }

  // Skips a parenthesized group after a type such as Dict(str, Tensor) or (int, float).
  void skip_group() {
    int depth = 0;
    do {
      const char c = peek();
      if (c == '\0') fail("')'");
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      ++pos_;
    } while (depth > 0);
  }

  void parse_alias(SchemaType& t) {
    expect('(');
    t.aliased = true;
    while (peek() != ')') {
      if (accept("->")) {  // the alias sets after the call
        while (peek() != ')' && peek() != '\0') ++pos_;
        break;
      }
      if (accept("!")) {
        t.mutated = true;
      } else if (accept("|")) {
        t.alias_set += '|';
      } else if (accept("*")) {
        t.alias_set += '*';
      } else {
        const std::string_view set = word();
        if (set.empty()) fail("an alias set");
        t.alias_set += set;
      }
    }
    expect(')');
  }

  SchemaType parse_type() {
    SchemaType t;
    if (peek() == '(') {  // a tuple
      skip_group();
    } else {
      const std::string_view base = word();
      if (base.empty()) fail("a type");
      const BaseType* known = std::ranges::find(kBaseTypes, base, &BaseType::name);
      if (known == std::end(kBaseTypes)) known = nullptr;
      if (peek() == '(') {
        if (known) {
          parse_alias(t);
        } else {
          skip_group();
        }
      }
      t.type = known ? known->scalar : ArgType::Other;
      bool list = false;
      while (true) {
        if (peek() == '?') {
          ++pos_;
          t.optional = true;
        } else if (peek() == '[') {
          ++pos_;
          const std::string_view size = word();
          if (!size.empty()) t.list_size = static_cast<int>(to_int(size));
          expect(']');
          const bool optional_elements = std::exchange(t.optional, false);
          if (list || !known) {
            t.type = ArgType::Other;
          } else if (known->scalar == ArgType::Tensor && optional_elements) {
            t.type = ArgType::OptionalTensorList;
          } else {
            t.type = known->list;
          }
          list = true;
        } else if (peek() == '(' && list) {  // Tensor[](a!)
          parse_alias(t);
        } else {
          break;
        }
      }
      if (t.type == ArgType::Tensor && t.optional) t.type = ArgType::OptionalTensor;
    }
    return t;
  }

  int64_t to_int(std::string_view w) {
    if (const auto v = number_in<int64_t>(w)) return *v;
    fail("an integer");
  }

  // A number as text, with sign and exponent.
  std::string_view number() {
    skip_blanks();
    const size_t begin = pos_;
    if (pos_ < text_.size() && (text_[pos_] == '-' || text_[pos_] == '+')) ++pos_;
    while (pos_ < text_.size() &&
           (is_word(text_[pos_]) || ((text_[pos_] == '-' || text_[pos_] == '+') && text_[pos_ - 1] == 'e')))
      ++pos_;
    return text_.substr(begin, pos_ - begin);
  }

  Arg numeric_default(std::string_view w, ArgType type) {
    if (w == "True" || w == "true") return true;
    if (w == "False" || w == "false") return false;
    if (w == "inf" || w == "-inf") return w[0] == '-' ? -HUGE_VAL : HUGE_VAL;
    if (const auto* found = std::ranges::find(kReductions, w); found != std::end(kReductions))
      return Expr(found - kReductions);
    const bool integer = w.find_first_of(".eE") == std::string_view::npos;
    if (integer && type != ArgType::Float) return Expr(to_int(w));
    if (const auto v = number_in<double>(w)) return *v;
    fail("a number");
  }

  std::string string_literal() {
    const char quote = text_[pos_++];
    std::string out;
    while (pos_ < text_.size() && text_[pos_] != quote) {
      if (text_[pos_] == '\\' && pos_ + 1 < text_.size()) ++pos_;
      out += text_[pos_++];
    }
    if (pos_ == text_.size()) fail("the end of a string");
    ++pos_;
    return out;
  }

  Arg list_default(const SchemaArg& a) {
    IntList ints;
    std::vector<double> floats;
    std::vector<bool> bools;
    auto add = [&](std::string_view w) {
      if (a.type == ArgType::FloatList || a.type == ArgType::ScalarList) {
        const Arg v = numeric_default(w, ArgType::Float);
        floats.push_back(std::get<double>(v));
      } else if (a.type == ArgType::BoolList) {
        bools.push_back(std::get<bool>(numeric_default(w, ArgType::Bool)));
      } else {
        ints.push_back(std::get<Expr>(numeric_default(w, ArgType::Int)));
      }
    };
    if (accept("[")) {
      if (!accept("]")) {
        do add(number());
        while (accept(","));
        expect(']');
      }
    } else {  // a lone number for a list of a fixed size
      const std::string_view w = number();
      for (int i = 0; i < std::max(a.list_size, 1); ++i) add(w);
    }
    switch (a.type) {
      case ArgType::FloatList:
      case ArgType::ScalarList: return floats;
      case ArgType::BoolList: return bools;
      case ArgType::TensorList:
      case ArgType::OptionalTensorList: return ValueList{};
      default: return ints;
    }
  }

  Arg parse_default(const SchemaArg& a) {
    const char c = peek();
    if (c == '"' || c == '\'') return string_literal();
    if (rest().starts_with("None") && a.type != ArgType::Int) {
      pos_ += 4;
      return None{};
    }
    if (a.type == ArgType::Int && a.optional && accept("None")) return None{};
    switch (a.type) {
      case ArgType::IntList:
      case ArgType::FloatList:
      case ArgType::BoolList:
      case ArgType::ScalarList:
      case ArgType::TensorList:
      case ArgType::OptionalTensorList: return list_default(a);
      case ArgType::DType: return dtype_default();
      case ArgType::MemoryFormat: return format_default();
      case ArgType::Layout: number(); return Layout::Strided;
      case ArgType::Device: {
        if (peek() == '"') return parse_device(string_literal());
        return parse_device(word());
      }
      case ArgType::Int:
      case ArgType::Float:
      case ArgType::Bool:
      case ArgType::Scalar: return numeric_default(number(), a.type);
      default: skip_unknown_default(); return None{};
    }
  }

  Arg dtype_default() {
    const std::string_view w = number();
    if (!w.empty() && w[0] >= '0' && w[0] <= '9') return dtype_of_number(to_int(w));
    if (w == "long") return DType::I64;
    if (w == "float") return DType::F32;
    if (w == "double") return DType::F64;
    if (w == "bool") return DType::Bool;
    return DType::Other;
  }

  Arg format_default() {
    const std::string_view w = number();
    if (w == "contiguous_format" || w == "0") return MemoryFormat::Contiguous;
    if (w == "preserve_format" || w == "1") return MemoryFormat::Preserve;
    if (w == "channels_last" || w == "2") return MemoryFormat::ChannelsLast;
    if (w == "channels_last_3d" || w == "3") return MemoryFormat::ChannelsLast3d;
    fail("a memory format");
  }

  void skip_unknown_default() {
    int depth = 0;
    for (; pos_ < text_.size(); ++pos_) {
      const char c = here();
      if (depth == 0 && (c == ',' || c == ')')) return;
      depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    }
  }
};

}  // namespace

int Schema::index_of(std::string_view arg_name) const {
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].name == arg_name) return static_cast<int>(i);
  return -1;
}

bool Schema::mutates() const { return std::ranges::any_of(args, &SchemaArg::mutated); }

bool Schema::is_view() const {
  for (const SchemaReturn& r : returns) {
    if (r.alias_set.empty() || r.mutated) continue;
    for (const SchemaArg& a : args)
      if (a.aliased && !a.mutated && a.alias_set == r.alias_set) return true;
  }
  return false;
}

Schema parse_schema(std::string_view text) { return SchemaParser(text).parse(); }

}  // namespace vesta::graph
