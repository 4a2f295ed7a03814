// Random numbers: calls into ATen in the program's order, so that the numbers are eager's.
#include "graph/ops/rows.h"
#include "graph/rules/factory_types.h"
#include "graph/rules/promotion.h"

namespace vesta::graph {
namespace {

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
void native_dropout(const NodeArgs& args, Guards& g, Results& results) {
  empty_like_first(args, g, results);
  results.push_back(results[0]);
  results[1].dtype = DType::Bool;
}
void contiguous(const NodeArgs& args, Guards&, Results& results) {
  results.assign(1, contiguous_like(args.tensor(0), args.tensor(0).sizes));
}
void rrelu(const NodeArgs& args, Guards& g, Results& results) {
  results = {contiguous_like(args.tensor(0), args.tensor(0).sizes), preserved(g, args.tensor(1))};
}
void multinomial(const NodeArgs& args, Guards&, Results& results) {
  Sizes sizes = args.tensor(0).sizes;
  sizes.back() = args.integer("num_samples");
  results.assign(1, contiguous_like(args.tensor(0), sizes, DType::I64));
}

constexpr OpRow kRandomRows[] = {
    call("aten::rand aten::randn", sized, kRandom),
    call("aten::randint aten::randint.low", sized_integers, kRandom),
    call("aten::randperm", permutation, kRandom),
    call("aten::rand_like aten::randn_like aten::randint_like aten::randint_like.low_dtype", like, kRandom),
    call("aten::bernoulli aten::bernoulli.p", contiguous, kRandom),
    call("aten::bernoulli.Tensor aten::normal_functional aten::uniform aten::exponential aten::random",
         empty_like_first, kRandom),
    call("aten::native_dropout", native_dropout, kRandom),
    call("aten::rrelu_with_noise_functional", rrelu, kRandom),
    call("aten::multinomial", multinomial, kRandom),
};

}  // namespace

std::span<const OpRow> random_rows() { return kRandomRows; }

}  // namespace vesta::graph
