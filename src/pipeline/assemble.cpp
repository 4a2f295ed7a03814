#include "pipeline/assemble.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/check.h"

namespace vesta::pipeline {

namespace {

using artifact::Size;

class Assembler {
 public:
  Assembler(const graph::Graph& graph, const schedule::Plan& plan, const ObjectByText& objects)
      : graph_(graph), plan_(plan), objects_(objects) {
    for (size_t i = 0; i < graph.symbols.size(); ++i) slots_[graph.symbols[i].symbol] = static_cast<int64_t>(i);
  }

  artifact::Artifact run() {
    add_inputs();
    add_guards();
    add_buffers();
    for (const schedule::Step& s : plan_.prepacked) out_.prepacked.push_back(step(s));
    find_prepacked_parameters();
    for (const schedule::Step& s : plan_.steps) out_.steps.push_back(step(s));
    for (size_t i = 0; i < graph_.outputs.size(); ++i)
      out_.outputs.push_back(output(graph_.outputs[i], plan_.outputs[i]));
    for (const graph::Mutation& m : graph_.mutations) out_.mutated.push_back(m.input);
    out_.device = plan_.device;
    out_.is_static = graph_.symbols.empty();
    out_.arena = plan_.arena;
    out_.arena.offsets.resize(out_.buffers.size(), -1);
    return std::move(out_);
  }

 private:
  Size size(Expr e) const {
    return compile(e, [&](Expr symbol) -> int64_t {
      auto it = slots_.find(symbol);
      VESTA_CHECK(it != slots_.end(), "no input defines {}", to_string(symbol));
      return it->second;
    });
  }

  std::vector<Size> sizes(const std::vector<Expr>& list) const {
    std::vector<Size> out;
    out.reserve(list.size());
    for (Expr e : list) out.push_back(size(e));
    return out;
  }

  artifact::TensorDesc type(const graph::TensorType& t) const {
    return {t.dtype, t.device, sizes(t.sizes), sizes(t.strides)};
  }

  void add_inputs() {
    for (const graph::Input& i : graph_.inputs) {
      out_.inputs.push_back(
          {type(i.value->type), i.kind == graph::InputKind::Parameter, i.name, static_cast<int>(i.alignment)});
    }
    for (const graph::SymbolSource& s : graph_.symbols) out_.symbols.push_back({s.input, s.dim, s.stride});
  }

  // The text of the expression, with "x.size(0)" for a symbol that is read there.
  std::string text_of(Expr e) const {
    const std::string text = to_string(e);
    std::string out;
    for (size_t i = 0; i < text.size();) {
      size_t end = i;
      while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
      if (end == i) ++end;
      const std::string word = text.substr(i, end - i);
      const auto symbol = std::find_if(graph_.symbols.begin(), graph_.symbols.end(), [&](const graph::SymbolSource& s) {
        return s.input >= 0 && to_string(s.symbol) == word;
      });
      out += symbol == graph_.symbols.end()
                 ? word
                 : fmt::format("{}.{}({})", graph_.inputs[static_cast<size_t>(symbol->input)].name,
                               symbol->stride ? "stride" : "size", symbol->dim);
      i = end;
    }
    return out;
  }

  // The enumerator of the same name. Both lists have one order.
  template <class To, class From>
  static To same(From e) {
    static_assert(static_cast<int>(artifact::Relation::AtLeast) == static_cast<int>(graph::Relation::AtLeast));
    static_assert(static_cast<int>(artifact::Role::Prepacked) == static_cast<int>(schedule::BufferRole::Prepacked));
    static_assert(static_cast<int>(artifact::OutputKind::None) == static_cast<int>(graph::OutputKind::None));
    return static_cast<To>(e);
  }

  void add_guards() {
    constexpr std::string_view relations[] = {"==", "!=", "<", ">="};
    auto add = [&](Expr left, graph::Relation relation, Expr right, const std::string& source) {
      std::string text = fmt::format("{} {} {}", text_of(left), relations[static_cast<int>(relation)], text_of(right));
      if (!source.empty()) text += fmt::format(" ({})", source);
      out_.guards.push_back({size(left), same<artifact::Relation>(relation), size(right), std::move(text)});
    };
    // The assumptions of passes and planner about each symbol become guards.
    for (const graph::SymbolSource& s : graph_.symbols) {
      const ExprNode& n = *s.symbol.node();
      add(s.symbol, graph::Relation::AtLeast, n.lower, "sizes 0 and 1 are compiled apart");
      if (n.upper) add(*n.upper, graph::Relation::AtLeast, s.symbol, "");
    }
    for (const graph::Guard& g : graph_.guards) add(g.left, g.relation, g.right, g.source);
  }

  void add_buffers() {
    for (const schedule::Buffer& b : plan_.buffers) {
      out_.buffers.push_back({same<artifact::Role>(b.role), type(b.type), b.input, b.output, b.first_step, b.last_step,
                              size(graph::numel(b.type) * Expr(element_size(b.type.dtype)))});
    }
  }

  artifact::View view(const schedule::BufferView& v) const {
    artifact::View out;
    out.buffer = v.buffer;
    if (v.buffer < 0) return out;
    const graph::TensorType& whole = plan_.buffers[v.buffer].type;
    out.dtype = v.dtype;
    out.sizes = sizes(v.sizes);
    out.strides = sizes(v.strides);
    out.offset = size(v.offset);
    out.whole =
        v.dtype == whole.dtype && v.sizes == whole.sizes && v.strides == whole.strides && v.offset.is_constant(0);
    return out;
  }

  artifact::Step step(const schedule::Step& s) {
    if (const auto* k = std::get_if<schedule::KernelStep>(&s)) return launch(*k);
    if (const auto* e = std::get_if<schedule::ExternStep>(&s)) return call(*e);
    if (const auto* a = std::get_if<schedule::AssertStep>(&s)) return artifact::Assert{a->flag, a->message};
    const auto& c = std::get<schedule::CopyStep>(s);
    return artifact::CopyBack{view(c.from), c.input};
  }

  artifact::Launch launch(const schedule::KernelStep& k) const {
    artifact::Launch out;
    auto it = objects_.find(k.text);
    VESTA_CHECK(it != objects_.end(), "a kernel of the plan was not compiled");
    out.object = it->second;
    out.name = kernel_name(k.ops);
    out.access.resize(k.args.size());
    for (size_t i = 0; i < k.args.size(); ++i) out.access[i] = k.kernel->buffers[i].written ? artifact::kWrites : 0;
    for (const loops::Instr& i : k.kernel->instrs) {
      if (i.kind == loops::InstrKind::Load) out.access[i.buffer] |= artifact::kReads;
    }
    for (size_t i = 0; i < k.args.size(); ++i) {
      out.buffers.push_back(k.args[i].buffer);
      const DType t =
          real_of(plan_.buffers[k.args[i].buffer].type.dtype);  // kernels see complex numbers as pairs of parts
      out.offsets.push_back(size(k.args[i].offset * Expr(element_size(t))));
    }
    out.sizes = sizes(k.sizes);
    out.items = size(k.items);
    out.scratch = size(k.scratch);
    out.item_cost = size(k.item_cost);
    out.serial = k.kernel->serial;
    if (const loops::Threads& t = k.kernel->threads; t.block > 0)
      out.grid = {static_cast<int>(t.block), static_cast<int>(loops::items_of_block(*k.kernel)),
                  static_cast<int>(loops::shared_bytes(*k.kernel))};
    return out;
  }

  artifact::Extern call(const schedule::ExternStep& e) const {
    artifact::Extern out;
    out.op = e.op->name;
    out.source = e.source;
    out.results = e.results;
    for (const schedule::ExternArg& a : e.args) {
      if (const auto* v = std::get_if<schedule::BufferView>(&a)) {
        out.args.push_back({view(*v)});
      } else if (const auto* list = std::get_if<schedule::ViewList>(&a)) {
        std::vector<artifact::View> views;
        for (const schedule::BufferView& v : list->views) views.push_back(view(v));
        out.args.push_back({std::move(views)});
      } else {
        out.args.push_back(plain(std::get<graph::Arg>(a), e.op->name));
      }
    }
    return out;
  }

  artifact::Arg plain(const graph::Arg& arg, const std::string& op) const {
    return std::visit(
        [&](const auto& v) -> artifact::Arg {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, graph::None>) {
            return {artifact::NoneArg{}};
          } else if constexpr (std::is_same_v<T, graph::Value*> || std::is_same_v<T, graph::ValueList>) {
            VESTA_CHECK(false, "{}: a value of the graph among the plain arguments of the plan", op);
          } else if constexpr (std::is_same_v<T, Expr>) {
            return {size(v)};
          } else if constexpr (std::is_same_v<T, graph::IntList>) {
            return {sizes(v)};
          } else {
            return {v};
          }
        },
        arg);
  }

  artifact::Output output(const graph::Output& o, const schedule::BufferView& fresh) const {
    artifact::Output out;
    using Kind = graph::OutputKind;
    out.kind = same<artifact::OutputKind>(o.kind);
    if (o.kind == Kind::Fresh) out.view = view(fresh);
    if (o.kind == Kind::Integer) out.integer = size(o.integer);
    out.alias = o.alias;
    out.hidden = o.hidden;
    if (o.kind == Kind::InputView || o.kind == Kind::OutputView) {
      out.type = type(o.type);
      out.storage_offset = size(o.storage_offset);
      out.absolute_offset = o.absolute_offset;
      out.conj_neg = o.conj_neg;
    }
    return out;
  }

  void find_prepacked_parameters() {
    std::set<int> inputs;
    for (const schedule::Step& s : plan_.prepacked)
      for_each_buffer(s, [&](int b) {
        if (plan_.buffers[b].role == schedule::BufferRole::Input) inputs.insert(plan_.buffers[b].input);
      });
    out_.prepacked_parameters.assign(inputs.begin(), inputs.end());
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      if (plan_.buffers[b].role != schedule::BufferRole::Prepacked) continue;
      VESTA_CHECK(out_.buffers[b].bytes.is_constant(), "a prepacked constant (buffer {}) has a symbolic size", b);
    }
  }

  const graph::Graph& graph_;
  const schedule::Plan& plan_;
  const ObjectByText& objects_;
  std::unordered_map<Expr, int64_t> slots_;
  artifact::Artifact out_;
};

}  // namespace

artifact::Artifact assemble(const graph::Graph& graph, const schedule::Plan& plan, const ObjectByText& objects) {
  return Assembler(graph, plan, objects).run();
}

std::string kernel_name(std::span<const std::string_view> ops) {
  std::string name;
  for (const std::string_view op : ops) {
    if (name.size() > 60) break;
    const size_t start = op.rfind(':') + 1;
    name.append(name.empty() ? "" : "_").append(op.substr(start, op.find('.', start) - start));
  }
  return name;
}

}  // namespace vesta::pipeline
