// Random numbers: calls into ATen in the program's order, so that the numbers are eager's.
#include "graph/ops/rows.h"
#include "graph/rules/factory_types.h"
#include "graph/rules/iterator_strides.h"
#include "graph/rules/promotion.h"

namespace vesta::graph {
namespace {

using Results = std::vector<TensorType>;

void sized(const NodeArgs& args, Guards&, Results& results) {
  results.assign(1, factory_type(args, args.integers("size"), default_dtype(), {}));
}
void sized_integers(const NodeArgs& args, Guards&, Results& results) {
  results.assign(1, factory_type(args, args.integers("size"), DType::I64, {}));
}
void like(const NodeArgs& args, Guards& g, Results& results) { results.assign(1, like_type(args, g)); }
void permutation(const NodeArgs& args, Guards&, Results& results) {
  results.assign(1, factory_type(args, {args.integer("n")}, DType::I64, {}));
}
void same(const NodeArgs& args, Guards& g, Results& results) {
  results.assign(1, args.tensor(0));
  results[0].strides = preserved_strides(g, args.tensor(0));
}
void native_dropout(const NodeArgs& args, Guards& g, Results& results) {
  same(args, g, results);
  results.push_back(results[0]);
  results[1].dtype = DType::Bool;
}
void rrelu(const NodeArgs& args, Guards& g, Results& results) {
  results = {args.tensor(0), args.tensor(1)};
  for (TensorType& t : results) t.strides = preserved_strides(g, t);
}
void multinomial(const NodeArgs& args, Guards&, Results& results) {
  Sizes sizes = args.tensor(0).sizes;
  sizes.back() = args.integer("num_samples");
  results.assign(1, contiguous_like(args.tensor(0), sizes, DType::I64));
}

constexpr OpRow draw(const char* name, ShapeRule shape) { return {.name = name, .shape = shape, .flags = kRandom}; }

constexpr OpRow kRows[] = {
    draw("aten::rand", sized),
    draw("aten::randn", sized),
    draw("aten::randint", sized_integers),
    draw("aten::randint.low", sized_integers),
    draw("aten::randperm", permutation),
    draw("aten::rand_like", like),
    draw("aten::randn_like", like),
    draw("aten::randint_like", like),
    draw("aten::randint_like.low_dtype", like),
    draw("aten::bernoulli", same),
    draw("aten::bernoulli.p", same),
    draw("aten::bernoulli.Tensor", same),
    draw("aten::normal_functional", same),
    draw("aten::uniform", same),
    draw("aten::exponential", same),
    draw("aten::random", same),
    draw("aten::native_dropout", native_dropout),
    draw("aten::rrelu_with_noise_functional", rrelu),
    draw("aten::multinomial", multinomial),
};

}  // namespace

std::span<const OpRow> random_rows() { return kRows; }

}  // namespace vesta::graph
