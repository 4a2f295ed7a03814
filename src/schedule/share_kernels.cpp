#include "schedule/share_kernels.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "loops/register_product.h"

namespace vesta::schedule {

namespace {

using loops::Instr;
using loops::Kernel;
using loops::Range;

// What stands in a copy for a constant of the kernel: an extent, a block, a stride, an offset.
using Replace = std::function<Expr(ExprContext& context, int64_t constant)>;

// Copies a kernel into a context of its own. Its sizes are passed to `replace`, always in the same order.
class Copy {
 public:
  Copy(const Kernel& from, const Replace& replace)
      : from_(from), replace_(replace), out_(std::make_shared<Kernel>(from)) {
    out_->context = std::make_shared<ExprContext>();
  }

  std::shared_ptr<Kernel> run() {
    for (size_t d = 0; d < from_.ranges.size(); ++d) {
      const Range& r = from_.ranges[d];
      Range& to = out_->ranges[d];
      // The sums of a few inner elements are one piece, which is worth a kernel of its own if there are very few.
      const bool few = d + 1 == from_.ranges.size() && r.extent.constant() <= loops::kRegisterPiece / 4;
      to.extent = few ? r.extent : size(r.extent.constant());
      to.var = out_->context->loop_symbol(r.var.node()->name, to.extent);
      vars_[r.var] = to.var;
    }
    out_->block = size(from_.block.constant());
    out_->registers.row_block = size(from_.registers.row_block.constant());
    // One slice is the whole range, whatever its size.
    out_->registers.slice =
        loops::has_one_slice(from_) ? out_->ranges.back().extent : size(from_.registers.slice.constant());
    for (Instr& i : out_->instrs)
      if (loops::has_index(i.kind)) i.index = copy(i.index, false);
    return out_;
  }

 private:
  Expr size(int64_t constant) {
    const int64_t magnitude = constant < 0 ? -constant : constant;
    if (magnitude < 2) return constant;
    // Of pairs, the code generator knows which sizes are even, and which fill the instructions for matrices.
    const loops::RegisterTile& t = from_.registers;
    int64_t each = t.elements_of_step() * std::max<int64_t>(1, t.depth);
    if (magnitude % each != 0) each = magnitude % t.elements_of_step() == 0 ? t.elements_of_step() : 1;
    const Expr e = magnitude == each ? Expr(each) : Expr(each) * replace_(*out_->context, magnitude / each);
    return constant < 0 ? -e : e;
  }

  // `keeps`: constants stay. The code generator knows the panel of a column by constants.
  Expr copy(Expr e, bool keeps) {
    const auto number = [&](int64_t c) { return keeps ? Expr(c) : size(c); };
    if (e.is_constant()) return number(e.constant());
    const ExprNode& n = *e.node();
    const auto operand = [&](size_t k) { return copy(n.operands[k], keeps); };
    switch (n.kind) {
      case ExprKind::Symbol: return vars_.at(e);
      case ExprKind::Sum: {
        Expr sum = number(n.constant);
        for (const Term& t : n.terms) {
          const Expr factor = copy(t.factor, keeps);
          sum = sum + number(t.coefficient) * factor;
        }
        return sum;
      }
      case ExprKind::Product: {
        Expr product = 1;
        for (const Expr& o : n.operands) product = product * copy(o, keeps);
        return product;
      }
      case ExprKind::FloorDiv:
      case ExprKind::Mod: {
        const Expr column = from_.ranges[static_cast<size_t>(from_.vector)].var, inner = from_.ranges.back().var;
        keeps = keeps || contains(n.operands[0], column) || (from_.registers.pairs && contains(n.operands[0], inner));
        const Expr a = operand(0), b = operand(1);
        return n.kind == ExprKind::Mod ? mod(a, b) : floordiv(a, b);
      }
      case ExprKind::Min:
      case ExprKind::Max: {
        const Expr a = operand(0), b = operand(1);
        return n.kind == ExprKind::Min ? min(a, b) : max(a, b);
      }
    }
    return e;
  }

  const Kernel& from_;
  const Replace& replace_;
  std::shared_ptr<Kernel> out_;
  std::unordered_map<Expr, Expr> vars_;
};

// A kernel of the plan, and the sizes that its copy replaces.
struct Sized {
  std::unique_ptr<Kernel> kernel;
  std::vector<int64_t> sizes;
  std::vector<KernelStep*> steps;
};

bool may_share(const Kernel& k) {
  return k.registers.rows > 0 && k.sizes.empty() && !k.registers.packs_rows && !k.registers.packs_columns;
}

// The text of the kernel with a symbol for each size. Kernels of one text differ in their sizes alone.
std::string form_of(Sized& s) {
  std::vector<Expr> symbols;
  const std::shared_ptr<Kernel> open = Copy(*s.kernel, [&](ExprContext& context, int64_t size) {
                                         s.sizes.push_back(size);
                                         symbols.push_back(context.size_symbol("size", size, 1));
                                         return symbols.back();
                                       }).run();
  open->sizes = std::move(symbols);
  return loops::print(*open);
}

void share(const std::vector<Sized*>& same) {
  // Sizes in the same proportions are multiples of one argument.
  std::map<std::vector<int64_t>, size_t> numbers;
  std::vector<std::vector<int64_t>> arguments;  // by number: for each kernel
  std::vector<Expr> symbols;
  size_t next = 0;
  const std::shared_ptr<Kernel> shared =
      Copy(*same[0]->kernel, [&](ExprContext& context, int64_t size) -> Expr {
        const size_t at = next++;
        int64_t divisor = 0;
        for (const Sized* s : same) divisor = std::gcd(divisor, s->sizes[at]);
        std::vector<int64_t> values;
        for (const Sized* s : same) values.push_back(s->sizes[at] / divisor);
        if (std::all_of(values.begin(), values.end(), [](int64_t v) { return v == 1; })) return size;
        const auto [it, fresh] = numbers.emplace(values, symbols.size());
        if (fresh) {
          symbols.push_back(context.size_symbol("size", values[0], 1));
          arguments.push_back(std::move(values));
        }
        return Expr(divisor) * symbols[it->second];
      }).run();
  shared->sizes = symbols;
  const auto sum = loops::register_sum(*shared);
  if (!sum || !loops::reads_rows_in_place(*shared, *sum) || !loops::reads_columns_in_place(*shared, *sum)) return;
  const std::string text = loops::print(*shared);
  const Expr scratch = loops::scratch_bytes(*shared);
  for (size_t m = 0; m < same.size(); ++m) {
    std::vector<Expr> sizes;
    for (const auto& values : arguments) sizes.emplace_back(values[m]);
    const Expr bytes = substitute(scratch, [&](Expr s) {
      return sizes[static_cast<size_t>(std::find(symbols.begin(), symbols.end(), s) - symbols.begin())];
    });
    for (KernelStep* step : same[m]->steps) {
      step->kernel = shared;
      step->text = text;
      step->sizes = sizes;
      step->scratch = bytes;
    }
  }
}

}  // namespace

void share_kernels(Plan& plan) {
  std::vector<Sized> kernels;                           // in the plan's order
  std::unordered_map<const Kernel*, size_t> by_kernel;  // layers that are alike have one kernel
  std::unordered_map<std::string_view, size_t> by_text;
  for (auto* steps : {&plan.prepacked, &plan.steps}) {
    for (Step& s : *steps) {
      auto* const k = std::get_if<KernelStep>(&s);
      if (!k || !may_share(*k->kernel)) continue;
      const auto [at, first] = by_kernel.emplace(k->kernel.get(), 0);
      if (first) {
        const auto [it, fresh] = by_text.emplace(k->text, kernels.size());
        // Terms of a text are in the same order in kernels of the same form.
        if (fresh) kernels.push_back({loops::parse_kernel(k->text), {}, {}});
        at->second = it->second;
      }
      kernels[at->second].steps.push_back(k);
    }
  }
  std::map<std::string, std::vector<Sized*>> forms;
  for (Sized& k : kernels) forms[form_of(k)].push_back(&k);
  for (const auto& [form, same] : forms)
    if (same.size() > 1) share(same);
}

}  // namespace vesta::schedule
