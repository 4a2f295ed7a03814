#include "runtime/differentiable.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>

#include "base/fault.h"
#include "runtime/backward_node.h"

namespace vesta::runtime {
namespace {

// The result with the history that eager gives it; its memory would give it another one.
at::Tensor with_history(const at::Tensor& t, History history) {
  if (history == History::Released) {
    const at::Tensor out = t.detach();
    torch::autograd::set_history(out, make_autograd_node<torch::autograd::Error>(torch::autograd::ERR_BACKWARD_TWICE,
                                                                                 torch::autograd::edge_list{}));
    return out;
  }
  if (history == History::Detached || !t.is_view()) return t.detach();
  const at::NoGradGuard off;
  const at::Tensor base(t._base());
  return at::as_strided(history == History::DetachedView ? base.detach() : base, t.sizes(), t.strides(),
                        t.storage_offset());
}

bool is_input(const CallInputs& in, const at::Tensor& t) {
  for (size_t i = 0; i < in.tensor_count(); ++i)
    if (in.tensor(i).is_same(t)) return true;
  return false;
}

}  // namespace

void run(const std::shared_ptr<const Differentiable>& program, const CallInputs& in,
         std::vector<c10::IValue>& outputs) {
  fault::reached("gradients");
  std::vector<c10::IValue> all;
  std::vector<NodePointer> nodes;
  std::vector<BackwardNode*> made;
  for (size_t i = 0; i < program->parts.size(); ++i) {
    NodePointer next;
    for (size_t s = std::max<size_t>(program->parts[i].segments.size(), 1); s-- > 0;) {
      auto node = make_autograd_node<BackwardNode>(program, i, s);
      node->connect_inputs(in, next);
      if (s == 0) made.push_back(node.get());
      next = std::move(node);
    }
    nodes.push_back(std::move(next));
  }
  program->forward->run(in, all, {}, [&](std::span<const c10::IValue> fresh) {
    for (BackwardNode* n : made) n->connect_results(in, fresh);
  });
  for (BackwardNode* n : made) n->save(in, all);
  for (size_t i = 0; i < program->returned; ++i) {
    c10::IValue& v = all[i];
    const History history = program->histories[i];
    const bool has_another =
        history != History::Recorded && v.isTensor() && (history == History::Released || v.toTensor().requires_grad());
    if (has_another && !is_input(in, v.toTensor())) v = with_history(v.toTensor(), history);
    outputs.push_back(std::move(v));
  }
}

}  // namespace vesta::runtime
