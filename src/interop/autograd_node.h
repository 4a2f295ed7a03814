// Nodes of autograd's graph: torch owns them by shared pointers before 2.12 or so, and by intrusive ones since.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace vesta {

using NodePointer = decltype(torch::autograd::Edge::function);
using WeakNodePointer =
    std::conditional_t<std::is_same_v<NodePointer, std::shared_ptr<torch::autograd::Node>>,
                       std::weak_ptr<torch::autograd::Node>, c10::weak_intrusive_ptr<torch::autograd::Node>>;

template <class T, class... Args>
auto make_autograd_node(Args&&... args) {
  if constexpr (std::is_same_v<NodePointer, std::shared_ptr<torch::autograd::Node>>)
    return std::shared_ptr<T>(new T(std::forward<Args>(args)...), [](auto* node) { deleteNode(node); });
  else
    return c10::make_intrusive<T>(std::forward<Args>(args)...);
}

}  // namespace vesta
