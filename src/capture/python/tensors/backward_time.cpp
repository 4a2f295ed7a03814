#include "capture/python/tensors/backward_time.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <chrono>
#include <unordered_set>
#include <utility>
#include <vector>

#include "capture/python/object.h"
#include "capture/python/tensors/tensors.h"
#include "interop/autograd_node.h"
#include "runtime/backward_node.h"

namespace vesta::capture {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

// A pass on the CPU runs nodes by falling numbers, so the last one is among those with the lowest. Which one it is
// depends on the gradients that are asked for.
constexpr size_t kLastNodes = 8;
constexpr int kDeepest = 4, kMostObjects = 2'000;

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int current_pass() { return torch::autograd::get_current_graph_task_id(); }

struct BeginHook final : torch::autograd::FunctionPreHook {
  explicit BeginHook(std::shared_ptr<BackwardTime> t) : time(std::move(t)) {}
  variable_list operator()(const variable_list& gradients) override {
    const int pass = current_pass();
    if (time->begin(pass, now_us()))
      torch::autograd::Engine::get_default_engine().queue_callback([t = time, pass] { t->finish(pass); });
    return gradients;
  }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}  // another tracer runs: no time

  std::shared_ptr<BackwardTime> time;
};

struct EndHook final : torch::autograd::FunctionPostHook {
  explicit EndHook(std::shared_ptr<BackwardTime> t) : time(std::move(t)) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    time->reach(current_pass(), now_us());
    return outputs;
  }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}

  std::shared_ptr<BackwardTime> time;
};

// Tensors in objects. No code of Python runs while a container is read: what it holds is owned first.
class TensorsIn {
 public:
  TensorsIn(std::span<PyObject* const> objects, bool in_attributes) {
    for (PyObject* x : objects) add(x, kDeepest);
    while (!open_.empty()) {
      const auto [x, depth] = std::move(open_.back());
      open_.pop_back();
      expand(x.get(), depth, in_attributes);
    }
  }
  std::vector<at::Tensor> found;

 private:
  void add(PyObject* x, int depth) {
    if (!x) return;
    if (is_tensor(x))
      found.push_back(THPVariable_Unpack(x));
    else if (depth > 0 && objects_++ < kMostObjects)
      open_.emplace_back(Object::share(x), depth - 1);
  }

  void expand(PyObject* x, int depth, bool in_attributes) {
    if (PyTuple_Check(x)) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); ++i) add(PyTuple_GET_ITEM(x, i), depth);
    } else if (PyList_Check(x)) {
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(x); ++i) add(PyList_GET_ITEM(x, i), depth);
    } else if (PyDict_Check(x)) {
      Py_ssize_t at = 0;
      for (PyObject *key = nullptr, *value = nullptr; PyDict_Next(x, &at, &key, &value);) add(value, depth);
    } else if (PyCell_Check(x)) {
      add(PyCell_GET(x), depth);
    } else if (in_attributes && is_instance(x)) {
      const Object attributes = Object::take(PyObject_GenericGetDict(x, nullptr));
      if (!attributes) return PyErr_Clear();
      add(attributes.get(), depth + 1);
    }
  }

  // Of a class in Python.
  static bool is_instance(PyObject* x) {
    return PyType_HasFeature(Py_TYPE(x), Py_TPFLAGS_HEAPTYPE) && !PyType_Check(x) && !PyModule_Check(x);
  }

  std::vector<std::pair<Object, int>> open_;
  int objects_ = 0;
};

// The autograd nodes that a call has made and that its results depend on.
class NodesOfCall {
 public:
  NodesOfCall(const std::vector<at::Tensor>& results, uint64_t first) : first_(first) {
    for (const at::Tensor& t : results)
      if (t.requires_grad() && !t.is_leaf())
        if (Node* const n = t.grad_fn().get(); add(n)) ends.push_back(n);
    for (size_t i = 0; i < all.size(); ++i)
      for (const torch::autograd::Edge& e : all[i]->next_edges()) add(e.function.get());
  }
  std::vector<Node*> ends, all;  // ends: the nodes that made the results

 private:
  // Whether it is a new one. The nodes of leaves have the highest number.
  bool add(Node* n) {
    if (!n || n->sequence_nr() < first_ || n->sequence_nr() == UINT64_MAX || !seen_.insert(n).second) return false;
    all.push_back(n);
    return true;
  }

  uint64_t first_;
  std::unordered_set<const Node*> seen_;
};

}  // namespace

bool BackwardTime::begin(int pass, double us) {
  const std::lock_guard lock(mutex_);
  if (pass_ != kNone) return false;
  pass_ = pass;
  begun_us_ = us;
  return true;
}

void BackwardTime::reach(int pass, double us) {
  const std::lock_guard lock(mutex_);
  if (pass == pass_ && !finished_) reached_us_ = us;
}

void BackwardTime::finish(int pass) {
  const std::lock_guard lock(mutex_);
  finished_ |= pass == pass_;
}

bool BackwardTime::has_begun() const {
  const std::lock_guard lock(mutex_);
  return pass_ != kNone;
}

bool BackwardTime::has_finished() const {
  const std::lock_guard lock(mutex_);
  return finished_;
}

std::optional<double> BackwardTime::us() const {
  const std::lock_guard lock(mutex_);
  if (!finished_ || !reached_us_) return std::nullopt;
  return *reached_us_ - begun_us_;
}

uint64_t next_node_number() { return at::sequence_number::peek(); }

std::shared_ptr<const BackwardTime> watch_backward(std::span<PyObject* const> results, bool in_attributes,
                                                   uint64_t first) {
  if (next_node_number() == first) return nullptr;
  NodesOfCall nodes(TensorsIn(results, in_attributes).found, first);
  if (nodes.all.empty()) return nullptr;
  auto time = std::make_shared<BackwardTime>();
  for (Node* n : nodes.ends) n->add_pre_hook(std::make_unique<BeginHook>(time));
  const size_t last = std::min(kLastNodes, nodes.all.size());
  std::ranges::partial_sort(nodes.all, nodes.all.begin() + static_cast<std::ptrdiff_t>(last), {}, &Node::sequence_nr);
  nodes.all.resize(last);
  for (Node* n : nodes.all) {
    // A hook after one of these nodes would make the engine keep its gradients for longer.
    if (auto* ours = dynamic_cast<runtime::BackwardNode*>(n))
      ours->when_done([time] { time->reach(current_pass(), now_us()); });
    else
      n->add_post_hook(std::make_unique<EndHook>(time));
  }
  return time;
}

}  // namespace vesta::capture
