#include <fmt/format.h>

#include <sstream>

#include "artifact/artifact.h"
#include "base/join.h"

namespace vesta::artifact {

namespace {

std::string text(const Size& s) {
  using Code = ExprProgram::Code;
  std::vector<std::string> stack;
  for (const auto& step : s.steps) {
    if (step.code == Code::Constant) {
      stack.push_back(std::to_string(step.value));
      continue;
    }
    if (step.code == Code::Symbol) {
      stack.push_back(fmt::format("s{}", step.value));
      continue;
    }
    const std::string b = std::move(stack.back());
    stack.pop_back();
    std::string& a = stack.back();
    switch (step.code) {
      case Code::Add: a = fmt::format("({} + {})", a, b); break;
      case Code::Mul: a = fmt::format("{}*{}", a, b); break;
      case Code::FloorDiv: a = fmt::format("({} // {})", a, b); break;
      case Code::Mod: a = fmt::format("({} % {})", a, b); break;
      case Code::Min: a = fmt::format("min({}, {})", a, b); break;
      case Code::Max: a = fmt::format("max({}, {})", a, b); break;
      default: break;
    }
  }
  return stack.empty() ? "?" : stack.back();
}

std::string text(const std::vector<Size>& sizes) {
  return "[" + join(sizes, [](const Size& s) { return text(s); }) + "]";
}

std::string text(const TensorDesc& t) {
  return fmt::format("{}{} strides {} on {}", name(t.dtype), text(t.sizes), text(t.strides), to_string(t.device));
}

std::string text(const View& v) {
  if (v.buffer < 0) return "none";
  if (v.whole) return fmt::format("b{}", v.buffer);
  return fmt::format("b{}:{}{}x{}+{}", v.buffer, name(v.dtype), text(v.sizes), text(v.strides), text(v.offset));
}

struct ArgText {
  std::string operator()(NoneArg) const { return "none"; }
  std::string operator()(const View& v) const { return text(v); }
  std::string operator()(const std::vector<View>& l) const { return "[" + join(l, *this) + "]"; }
  std::string operator()(bool b) const { return b ? "true" : "false"; }
  std::string operator()(const Size& s) const { return text(s); }
  std::string operator()(const std::vector<Size>& l) const { return text(l); }
  std::string operator()(double d) const { return fmt::format("{}f", d); }
  std::string operator()(const std::vector<double>& l) const { return numbers(l); }
  std::string operator()(const std::vector<bool>& l) const { return numbers(l); }
  std::string operator()(std::complex<double> c) const { return fmt::format("({}+{}j)", c.real(), c.imag()); }
  std::string operator()(const std::string& s) const { return '"' + s + '"'; }
  std::string operator()(DType t) const { return std::string(name(t)); }
  std::string operator()(Device d) const { return to_string(d); }
  std::string operator()(MemoryFormat f) const { return std::string(name(f)); }
  std::string operator()(Layout l) const { return l == Layout::Strided ? "strided" : "other layout"; }

  template <class T>
  static std::string numbers(const std::vector<T>& l) {
    return "[" + join(l, [](double d) { return fmt::format("{}", d); }) + "]";
  }
};

std::string text(const Arg& arg) { return std::visit(ArgText{}, arg.value); }

// A buffer that a step writes; "_": its result is dropped.
std::string result_text(int buffer) { return buffer < 0 ? "_" : fmt::format("b{}", buffer); }

std::string text(const Step& step) {
  if (const auto* l = std::get_if<Launch>(&step)) {
    std::string args;
    for (size_t i = 0; i < l->buffers.size(); ++i) {
      static constexpr const char* kAccess[] = {"", "read ", "write ", "read write "};
      args += fmt::format("{}{}b{}+{}", i ? ", " : "", kAccess[l->access.empty() ? 0 : l->access[i]], l->buffers[i],
                          text(l->offsets[i]));
    }
    const std::string blocks =
        l->grid.block > 0 ? fmt::format(" blocks of {} threads for {} items", l->grid.block, l->grid.items) : "";
    const std::string shared = l->grid.shared > 0 ? fmt::format(" with {} bytes shared", l->grid.shared) : "";
    return fmt::format("launch {}({}) sizes {} items {} scratch {} item_cost {}{}{}{}", l->name, args, text(l->sizes),
                       text(l->items), text(l->scratch), text(l->item_cost), l->serial ? " serial" : "", blocks,
                       shared);
  }
  if (const auto* e = std::get_if<Extern>(&step)) {
    std::string results;
    for (size_t i = 0; i < e->results.size(); ++i) {
      const int symbol = i < e->integers.size() ? e->integers[i] : -1;
      results += i ? ", " : "";
      results += symbol >= 0 ? fmt::format("s{}", symbol) : result_text(e->results[i]);
    }
    return fmt::format("{} = {}({})", results, e->op, join(e->args, [](const Arg& a) { return text(a); }));
  }
  if (const auto* c = std::get_if<Call>(&step)) {
    return fmt::format("{} = entry {}({})", join(c->results, result_text), c->entry,
                       join(c->inputs, [](const View& v) { return text(v); }));
  }
  if (const auto* a = std::get_if<Assert>(&step)) return fmt::format("assert b{}, \"{}\"", a->flag, a->message);
  const auto& c = std::get<CopyBack>(step);
  return fmt::format("input {} <- {}", c.input, text(c.from));
}

std::string_view name(Role r) {
  constexpr std::string_view names[] = {"input", "output", "arena", "returned", "prepacked"};
  return names[static_cast<int>(r)];
}

}  // namespace

std::string print(const Artifact& a) {
  std::string out;
  auto line = [&]<class... A>(fmt::format_string<A...> f, A&&... args) {
    out += fmt::format(f, std::forward<A>(args)...) + "\n";
  };
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    line("input {} {}: {}{}{}", i, a.inputs[i].name, text(a.inputs[i].type), a.inputs[i].parameter ? " parameter" : "",
         a.inputs[i].alignment > 1 ? fmt::format(" aligned {}", a.inputs[i].alignment) : "");
  }
  for (size_t i = 0; i < a.symbols.size(); ++i) {
    const SymbolSource& s = a.symbols[i];
    if (s.input == kReturned) {
      line("symbol s{} = returned by a step", i);
    } else if (s.input < 0) {
      line("symbol s{} = integer {}", i, s.dim);
    } else {
      line("symbol s{} = input {} {} {}", i, s.input, s.stride ? "stride" : "size", s.dim);
    }
  }
  constexpr std::string_view relations[] = {"==", "!=", "<", ">="};
  for (const Guard& g : a.guards)
    line("guard {} {} {}  # {}", text(g.left), relations[static_cast<int>(g.relation)], text(g.right), g.text);
  for (const auto& group : a.facts.same) {
    std::string members;
    for (int i : group) members += fmt::format(" {}", i);
    line("one tensor:{}", members);
  }
  for (const auto& [input, offset] : a.facts.offsets) line("storage_offset of input {} is {}", input, offset);
  for (const auto& [input, conj_neg] : a.facts.conj_neg) {
    line("input {} has bits{}{}", input, conj_neg.conj ? " conj" : "", conj_neg.neg ? " neg" : "");
  }
  if (a.device.type != DeviceType::CPU) line("device {}", to_string(a.device));
  for (size_t b = 0; b < a.buffers.size(); ++b) {
    const Buffer& buffer = a.buffers[b];
    std::string where;
    if (buffer.role == Role::Arena) {
      const char* block = a.arena.is_early(buffer.last_step) ? "early " : "";
      where = a.is_static ? fmt::format(" at {}{}", block, a.arena.offsets[b])
                          : fmt::format(" {} bytes", text(buffer.bytes));
    }
    if (buffer.role == Role::Input) where = fmt::format(" {}", buffer.input);
    if (buffer.role == Role::Output) where = fmt::format(" {}", buffer.output);
    line("buffer b{} {}{}: {} live {}..{}", b, name(buffer.role), where, text(buffer.type), buffer.first_step,
         buffer.last_step);
  }
  const std::string early =
      a.arena.early_end > 0 ? fmt::format(" and {} until step {}", a.arena.early_bytes, a.arena.early_end) : "";
  line("arena {} bytes{}{}", a.arena.kept_bytes, early, a.is_static ? "" : " under the hints");
  if (a.outputs_recur) line("outputs recur");
  for (const Step& s : a.prepacked) line("prepacked {}", text(s));
  for (size_t i = 0; i < a.steps.size(); ++i) line("{}: {}", i, text(a.steps[i]));
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    const Output& o = a.outputs[i];
    switch (o.kind) {
      case OutputKind::Fresh: line("output {} = {}{}", i, o.hidden ? "hidden " : "", text(o.view)); break;
      case OutputKind::Input: line("output {} = input {}", i, o.alias); break;
      case OutputKind::InputView:
      case OutputKind::OutputView:
        line("output {} = {} {} as {}{}{} from {}{}", i, o.kind == OutputKind::InputView ? "input" : "output", o.alias,
             text(o.type), o.conj_neg.conj ? " conj" : "", o.conj_neg.neg ? " neg" : "", text(o.storage_offset),
             o.absolute_offset ? " of the storage" : "");
        break;
      case OutputKind::Integer: line("output {} = {}", i, text(o.integer)); break;
      case OutputKind::None: line("output {} = none", i); break;
    }
  }
  for (size_t i = 0; i < a.entries.size(); ++i) {
    line("entry {}", i);
    std::stringstream lines(print(a.entries[i]));
    for (std::string one; std::getline(lines, one);) line("  {}", one);
  }
  return out;
}

}  // namespace vesta::artifact
