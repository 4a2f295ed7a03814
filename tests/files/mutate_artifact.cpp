#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <functional>

#include "mutate.h"

namespace vesta::files {
namespace {

using namespace artifact;

template <class T>
int64_t count(const std::vector<T>& v) {
  return static_cast<int64_t>(v.size());
}

// Operators that other operators call trust their arguments.
bool is_internal(const std::string& op) { return !op.starts_with("aten::") || op.starts_with("aten::_"); }

class Mutator {
 public:
  Mutator(Artifact& a, Random& r) : a_(a), r_(r) {}

  std::string run() {
    using Change = std::string (Mutator::*)();
    constexpr Change changes[] = {
        &Mutator::input,  &Mutator::symbol, &Mutator::facts,    &Mutator::buffer, &Mutator::buffer, &Mutator::call,
        &Mutator::call,   &Mutator::call,   &Mutator::call,     &Mutator::call,   &Mutator::copy,   &Mutator::assertion,
        &Mutator::entry,  &Mutator::region, &Mutator::region,   &Mutator::steps,  &Mutator::arena,  &Mutator::output,
        &Mutator::output, &Mutator::output, &Mutator::prepacked};
    for (;;)
      if (std::string done = (this->*changes[r_.below(std::size(changes))])(); !done.empty()) return done;
  }

 private:
  void change(int& x, int64_t n) { x = static_cast<int>(r_.number(x, n)); }
  void change(int64_t& x, int64_t n = 8) { x = r_.number(x, n); }
  void change(bool& x) { x = !x; }
  void change(DType& t) { t = static_cast<DType>(r_.below(static_cast<size_t>(DType::Other) + 1)); }
  void change(Device& d) { d = {static_cast<DeviceType>(r_.below(4)), static_cast<int8_t>(r_.number(d.index, 2))}; }
  void change(std::string& s) {
    if (r_.one_in(2) && !s.empty())
      s[r_.below(s.size())] = static_cast<char>(r_.below(256));
    else
      s = r_.one_in(2) ? "" : s + "x";
  }
  void change(Size& s) {
    const int64_t symbols = count(a_.symbols);
    const int64_t old = s.is_constant() ? s.steps[0].value : 1;
    const bool constant = a_.is_static || symbols == 0;
    switch (r_.below(constant ? 8 : 6)) {
      case 0: s = Size{{{Size::Code::Symbol, r_.number(0, symbols)}}}; return;
      case 1:
        for (Size::Step& step : s.steps)
          if (r_.one_in(s.steps.size())) step.value = r_.number(step.value, symbols);
        return;
      case 2:
        if (!s.steps.empty()) r_.of(s.steps).code = static_cast<Size::Code>(r_.below(8));
        return;
      case 3:
        s.steps.push_back({Size::Code::Constant, r_.number(old, 4)});
        s.steps.push_back({static_cast<Size::Code>(2 + r_.below(6))});
        return;
      case 4:
        if (!s.steps.empty()) s.steps.erase(s.steps.begin() + static_cast<ptrdiff_t>(r_.below(s.steps.size())));
        return;
      default: s = Size{{{Size::Code::Constant, r_.number(old, 16)}}};
    }
  }
  template <class T>
  void change(std::vector<T>& list) {
    const size_t at = r_.below(list.size());
    switch (list.empty() ? 0 : r_.below(6)) {
      case 0:
        list.insert(list.begin() + static_cast<ptrdiff_t>(r_.below(list.size() + 1)), list.empty() ? T() : list[at]);
        return;
      case 1: list.erase(list.begin() + static_cast<ptrdiff_t>(at)); return;
      case 2: std::swap(list[at], list[r_.below(list.size())]); return;
      default:
        if constexpr (std::is_same_v<T, int>)
          change(list[at], std::max(count(a_.buffers), count(a_.inputs)));
        else if constexpr (std::is_same_v<T, double>)
          list[at] = static_cast<double>(r_.number(0, 8));
        else
          change(list[at]);
    }
  }
  void change(std::vector<bool>& list) { list.push_back(r_.one_in(2)); }
  void change(TensorDesc& t) {
    switch (r_.below(4)) {
      case 0: return change(t.dtype);
      case 1: return change(t.device);
      case 2: return change(t.sizes);
      default: return change(t.strides);
    }
  }
  void change(View& v) {
    switch (r_.below(8)) {
      case 0: return change(v.buffer, count(a_.buffers));
      case 1: return change(v.dtype);
      case 2: return change(v.sizes);
      case 3: return change(v.strides);
      case 4: return change(v.offset);
      case 5: return change(v.whole);
      case 6:
        v.sizes.push_back(Size{{{Size::Code::Constant, r_.number(1, 4)}}});
        v.strides.push_back(Size{{{Size::Code::Constant, r_.number(1, 4)}}});
        return;
      default:
        if (v.whole && v.buffer >= 0 && v.buffer < count(a_.buffers)) {
          const TensorDesc& t = a_.buffers[static_cast<size_t>(v.buffer)].type;
          v.sizes = t.sizes, v.strides = t.strides, v.dtype = t.dtype, v.whole = false;
        }
        return change(r_.one_in(2) ? v.sizes : v.strides);
    }
  }

  std::string input() {
    if (a_.inputs.empty()) return "";
    InputDesc& i = r_.of(a_.inputs);
    if (r_.one_in(8)) return change(i.parameter), "whether an input is a parameter";
    return change(i.type), "an input's type";
  }
  std::string symbol() {
    if (r_.one_in(8)) return change(a_.is_static), "whether all is constant";
    if (a_.symbols.empty()) return "";
    SymbolSource& s = r_.of(a_.symbols);
    switch (r_.below(3)) {
      case 0:
        if (r_.one_in(4)) return s.input = r_.one_in(2) ? kReturned : kArgument, "where a symbol comes from";
        return change(s.input, count(a_.inputs)), "a symbol's input";
      case 1: return change(s.dim, 4), "a symbol's dimension";
      default: return change(s.stride), "a symbol's kind";
    }
  }
  std::string facts() {
    const auto any = [&] { return static_cast<int>(r_.number(0, count(a_.inputs))); };
    switch (r_.below(4)) {
      case 0: return a_.facts.same.push_back({any(), any()}), "equal inputs";
      case 1: return a_.facts.offsets.emplace_back(any(), r_.number(0, 4)), "an input's offset";
      case 2: return a_.facts.conj_neg.emplace_back(any(), ConjNegBits{r_.one_in(2), r_.one_in(2)}), "what has bits";
      default: return change(a_.mutated), "inputs that are written";
    }
  }
  std::string buffer() {
    if (a_.buffers.empty()) return "";
    Buffer& b = r_.of(a_.buffers);
    switch (r_.below(8)) {
      case 0:
      case 1: return b.role = static_cast<Role>(r_.below(5)), "a buffer's role";
      case 2: return change(b.input, count(a_.inputs)), "a buffer's input";
      case 3: return change(b.output, count(a_.outputs)), "a buffer's output";
      case 4: return change(b.first_step, count(a_.steps)), "a buffer's first step";
      case 5: return change(b.last_step, count(a_.steps)), "a buffer's last step";
      case 6: return change(a_.device), "the device";
      default: return change(b.type.device), "a buffer's device";
    }
  }

  template <class T>
  T* step_of_kind() {
    std::vector<T*> found;
    for (auto* list : {&a_.steps, &a_.prepacked})
      for (Step& s : *list)
        if (T* x = std::get_if<T>(&s)) found.push_back(x);
    return found.empty() ? nullptr : found[r_.below(found.size())];
  }

  std::string operator_name(const std::string& old) {
    static const std::vector<std::string> all = [] {
      std::vector<std::string> out;
      for (const c10::OperatorName& n : c10::Dispatcher::singleton().getAllOpNames())
        if (!is_internal(n.name)) out.push_back(n.overload_name.empty() ? n.name : n.name + "." + n.overload_name);
      std::sort(out.begin(), out.end());
      return out;
    }();
    // Operators with the same kinds of arguments are rare among all of them.
    const auto handle = [](const std::string& op) {
      const size_t dot = op.find('.', op.find("::"));
      return c10::Dispatcher::singleton().findSchema(
          {op.substr(0, dot), dot == std::string::npos ? "" : op.substr(dot + 1)});
    };
    const auto mine = handle(old);
    std::string other = all[r_.below(all.size())];
    for (int i = 0; mine && i < 300; ++i) {
      const auto theirs = handle(other);
      const auto& x = mine->schema().arguments();
      const auto& y = theirs->schema().arguments();
      const bool fits =
          x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(),
                                             [](const auto& p, const auto& q) { return *p.type() == *q.type(); });
      if (fits) break;
      other = all[r_.below(all.size())];
    }
    return other;
  }

  void argument(Arg& arg) {
    if (r_.one_in(6)) {
      const std::vector<Size> sizes(r_.below(4), Size{{{Size::Code::Constant, r_.number(1, 8)}}});
      const View some{static_cast<int>(r_.number(0, count(a_.buffers))), DType::F32, {}, {}, {}, true};
      const Arg others[] = {{NoneArg{}},
                            {some},
                            {std::vector<View>(r_.below(3), some)},
                            {true},
                            {Size{{{Size::Code::Constant, r_.number(1, 8)}}}},
                            {sizes},
                            {0.5},
                            {std::vector<double>(r_.below(3), 0.5)},
                            {std::vector<bool>(r_.below(3))},
                            {std::complex<double>(1, 2)},
                            {std::string("sum")},
                            {DType::I64},
                            {Device{static_cast<DeviceType>(r_.below(4)), -1}},
                            {MemoryFormat::ChannelsLast},
                            {Layout::Strided}};
      arg = others[r_.below(std::size(others))];
      return;
    }
    std::visit(
        [&](auto& x) {
          using T = std::decay_t<decltype(x)>;
          if constexpr (std::is_same_v<T, double>)
            x = static_cast<double>(r_.number(0, 8));
          else if constexpr (std::is_same_v<T, MemoryFormat>)
            x = static_cast<MemoryFormat>(r_.below(4));
          else if constexpr (std::is_same_v<T, Layout>)
            x = static_cast<Layout>(r_.below(2));
          else if constexpr (!std::is_same_v<T, NoneArg> && !std::is_same_v<T, std::complex<double>>)
            change(x);
        },
        arg.value);
  }
  std::string call() {
    Extern* e = step_of_kind<Extern>();
    if (!e) return "";
    if (is_internal(e->op)) return change(e->results), e->op + "'s results";
    if (!e->integers.empty() && r_.one_in(6)) return change(e->integers), e->op + "'s integers";
    switch (r_.below(12)) {
      case 0: return change(e->op), "an operator's name";
      case 1: return e->op = operator_name(e->op), "the operator: " + e->op;
      case 2: return change(e->results), e->op + "'s results";
      case 3:
        if (e->args.empty()) return "";
        if (r_.one_in(8)) return e->integers = {static_cast<int>(r_.number(0, count(a_.symbols)))}, e->op + " defines";
        if (r_.one_in(2)) return e->args.pop_back(), e->op + " without its last argument";
        return std::swap(r_.of(e->args), r_.of(e->args)), e->op + ", two arguments swapped";
      default:
        if (e->args.empty()) return "";
        return argument(r_.of(e->args)), e->op + ", an argument";
    }
  }
  std::string entry() {
    if (a_.entries.empty()) return "";
    switch (r_.below(8)) {
      case 0: return a_.entries.pop_back(), "an entry less";
      case 1: {
        const Artifact copy = a_;
        return a_.entries.push_back(copy), "the artifact as an entry of itself";
      }
      default: return "in an entry, " + Mutator(r_.of(a_.entries), r_).run();
    }
  }
  std::string region() {
    Call* c = step_of_kind<Call>();
    if (!c) return "";
    switch (r_.below(4)) {
      case 0: return change(c->entry, count(a_.entries)), "the entry that is called";
      case 1: return change(c->results), "the results of an entry";
      default: return change(c->inputs), "the arguments of an entry";
    }
  }
  std::string copy() {
    if (r_.one_in(8))
      return a_.steps.emplace_back(CopyBack{View{0, DType::F32, {}, {}, {}, true}, 0}), "a copy to an input";
    CopyBack* c = step_of_kind<CopyBack>();
    if (!c) return "";
    if (r_.one_in(2)) return change(c->input, count(a_.inputs)), "where a copy goes";
    return change(c->from), "what is copied";
  }
  std::string assertion() {
    Assert* x = step_of_kind<Assert>();
    return x ? (change(x->message), "a message") : "";
  }
  // The order of launches and of what they wait for stays.
  std::string steps() {
    auto& list = a_.prepacked.empty() || r_.one_in(3) ? a_.steps : a_.prepacked;
    if (list.empty()) return "";
    const size_t at = r_.below(list.size());
    if (!std::holds_alternative<Extern>(list[at]) && !std::holds_alternative<CopyBack>(list[at])) return "";
    const Step moved = list[at];
    if (!r_.one_in(3)) list.erase(list.begin() + static_cast<ptrdiff_t>(at));
    if (!r_.one_in(3)) list.insert(list.begin() + static_cast<ptrdiff_t>(r_.below(list.size() + 1)), moved);
    return "the order of calls";
  }
  std::string arena() {
    switch (r_.below(5)) {
      case 0: return change(a_.arena.kept_bytes), "the arena's size";
      case 1: return change(a_.arena.early_bytes), "the early arena's size";
      case 2: return change(a_.arena.early_end, count(a_.steps)), "the early arena's end";
      default:
        if (a_.arena.offsets.empty()) return "";
        r_.of(a_.arena.offsets) = r_.one_in(2) ? 64 * static_cast<int64_t>(r_.below(64)) : r_.number(64, 1024);
        return "a buffer's place in the arena";
    }
  }
  std::string prepacked() {
    if (r_.one_in(2)) return change(a_.prepacked_parameters), "the parameters of prepacked constants";
    if (a_.prepacked.empty()) return "";
    return a_.prepacked.clear(), "no prepacked constants";
  }
  std::string output() {
    if (a_.outputs.empty()) return "";
    Output& o = r_.of(a_.outputs);
    switch (r_.below(12)) {
      case 0: return o.kind = static_cast<OutputKind>(r_.below(6)), "an output's kind";
      case 1:
      case 2: return change(o.view), "an output's view";
      case 3: return change(o.alias, count(a_.outputs)), "an output's alias";
      case 4:
      case 5: return change(o.type), "an output's type";
      case 6: return change(o.storage_offset), "an output's offset";
      case 7: return change(o.absolute_offset), "an output's base";
      case 8: return o.conj_neg = {r_.one_in(2), r_.one_in(2)}, "what has bits on an output";
      case 9: return change(o.integer), "an integer output";
      case 10: return change(o.hidden), "a hidden output";
      default: {
        const Output copy = o;
        if (r_.one_in(2)) return a_.outputs.push_back(copy), "one more output";
        return std::swap(o, r_.of(a_.outputs)), "the order of outputs";
      }
    }
  }

  Artifact& a_;
  Random& r_;
};

}  // namespace

int64_t Random::number(int64_t old, int64_t count) {
  constexpr int64_t ends[] = {0,
                              1,
                              -1,
                              2,
                              64,
                              4096,
                              INT32_MAX,
                              INT32_MIN,
                              int64_t{1} << 31,
                              int64_t{1} << 40,
                              int64_t{1} << 56,
                              int64_t{1} << 60,
                              (int64_t{1} << 61) + 1,
                              INT64_MAX,
                              INT64_MIN,
                              INT64_MIN + 1};
  switch (below(8)) {
    case 0: return static_cast<int64_t>(static_cast<uint64_t>(old) + 1);
    case 1: return static_cast<int64_t>(static_cast<uint64_t>(old) - 1);
    case 2: return static_cast<int64_t>(static_cast<uint64_t>(old) * 2);
    case 3: return count;
    case 4: return ends[below(std::size(ends))];
    default: return static_cast<int64_t>(below(static_cast<size_t>(std::max<int64_t>(count, 1))));
  }
}

std::string mutate(Artifact& a, Random& random) { return Mutator(a, random).run(); }

}  // namespace vesta::files
