#include "capture/python/tensors/run.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "capture/entry/weight_packing.h"
#include "runtime/differentiable.h"
#include "runtime/executable.h"
#include "runtime/kept_versions.h"
#include "vesta/detail/function.h"
#include "vesta/error.h"

namespace py = pybind11;

namespace vesta::capture {

namespace {

GraphRun failed(std::string& failure, std::string text, GraphRun how = GraphRun::Failed) {
  text.resize(std::min(text.find('\n'), text.size()));
  failure = how == GraphRun::Failed ? "while running: " + text : text;
  return how;
}

// The tensors of Python objects, which stay alive meanwhile. Counting references of the tensors would need the GIL for
// each: the second reference of a torch tensor counts its Python object.
class Borrowed {
 public:
  // `tensors`: an empty list that takes them.
  Borrowed(std::span<PyObject* const> objects, std::vector<at::Tensor>& tensors)
      : objects_(objects), tensors_(tensors) {
    tensors_.reserve(objects.size());
    constexpr size_t kAhead = 12;
    for (size_t i = 0; i < objects.size(); ++i) {
      PyObject* x = objects[i];
      if (i + kAhead < objects.size()) runtime::prefetch_bytes(objects[i + kAhead], sizeof(THPVariable));
      Py_INCREF(x);
      tensors_.push_back(Traits::createBorrow(THPVariable_Unpack(x)));
    }
  }
  ~Borrowed() {
    for (at::Tensor& t : tensors_) Traits::destroyBorrow(t);
    tensors_.clear();
    for (PyObject* x : objects_) Py_DECREF(x);
  }
  Borrowed& operator=(Borrowed&&) = delete;  // neither copied nor moved
  const at::Tensor& operator[](size_t i) const { return tensors_[i]; }
  std::span<const at::Tensor> all() const { return {tensors_.data(), tensors_.size()}; }

 private:
  using Traits = c10::MaybeOwnedTraits<at::Tensor>;
  std::span<PyObject* const> objects_;
  std::vector<at::Tensor>& tensors_;
};

// The lists of a call, empty at first. They are those of the thread's last call, so that a call with many tensors
// allocates none; a call inside of another has its own.
class Lists {
 public:
  Lists() : tensors(std::move(spare().tensors)), addresses(std::move(spare().addresses)) {}
  ~Lists() {
    spare().tensors = std::move(tensors);
    spare().addresses = std::move(addresses);
  }
  Lists& operator=(Lists&&) = delete;  // neither copied nor moved

  std::vector<at::Tensor> tensors;
  runtime::Addresses addresses;

 private:
  struct Spare {
    std::vector<at::Tensor> tensors;
    runtime::Addresses addresses;
  };
  static Spare& spare() {
    static thread_local Spare s;
    return s;
  }
};

// When a parameter dies, the weights that are derived from it are dropped.
void watch_parameters(const CompiledGraph& compiled, std::span<PyObject* const> tensors) {
  compiled.watched = compiled.executable->times_prepacked();
  compiled.parameters = WeakReferences([graph = std::weak_ptr(compiled.executable)] {
    if (const auto alive = graph.lock()) alive->drop_prepacked();
  });
  for (const int i : compiled.executable->artifact().prepacked_parameters)
    compiled.parameters.add(tensors[static_cast<size_t>(i)]);
}

bool accepts(const CompiledGraph& compiled, const std::vector<bool>& require_grad, runtime::CallInputs& in,
             runtime::Addresses& addresses, std::string* why) {
  if (compiled.in_grad_mode || compiled.trains) {
    for (size_t i = 0; i < in.arguments.size(); ++i) {
      if (in.arguments[i].unsafeGetTensorImpl()->requires_grad() == require_grad[i]) continue;
      if (why) *why = "whether gradients are recorded for an input changed";
      return false;
    }
  }
  if (!compiled.executable->accepts(in, why, &addresses)) return false;
  in.addresses = {addresses.data(), addresses.size()};
  return true;
}

bool is_missing(std::span<PyObject* const> tensors, std::string* why) {
  const bool missing = std::find(tensors.begin(), tensors.end(), nullptr) != tensors.end();
  if (missing && why) *why = "an input is missing";
  return missing;
}

}  // namespace

bool accepts(const CompiledGraph& graph, const std::vector<bool>& require_grad, std::span<PyObject* const> tensors,
             std::span<const int64_t> integers, std::string* why) {
  if (is_missing(tensors, why)) return false;
  Lists lists;
  const Borrowed arguments(tensors, lists.tensors);
  runtime::CallInputs in{arguments.all(), {}, integers};
  return accepts(graph, require_grad, in, lists.addresses, why);
}

void pack_weights(const CompiledGraph& graph, std::span<PyObject* const> tensors, std::span<const int64_t> integers) {
  Lists lists;
  const Borrowed arguments(tensors, lists.tensors);
  const py::gil_scoped_release release;
  try {
    graph.executable->pack({arguments.all(), {}, integers});
  } catch (const std::exception& e) {
    log::write(log::Topic::Fallbacks, std::string("weights were not packed: ") + e.what());
  }
}

GraphRun run_graph(const CompiledGraph& compiled, const std::vector<bool>& require_grad,
                   std::span<PyObject* const> tensors, std::span<const int64_t> integers, std::vector<Object>& outputs,
                   std::string& failure, std::string* why) {
  if (is_missing(tensors, why)) return GraphRun::Rejected;
  Lists lists;
  const Borrowed arguments(tensors, lists.tensors);
  const runtime::Executable& graph = *compiled.executable;
  runtime::CallInputs in{arguments.all(), {}, integers};
  if (!accepts(compiled, require_grad, in, lists.addresses, why)) return GraphRun::Rejected;
  in.packs = !compiled.packing;
  std::vector<c10::IValue> values = detail::borrow_values();
  const auto run = [&] {
    std::optional<torch::PyWarningHandler> warnings;
    if (compiled.calls_aten) warnings.emplace();
    std::optional<py::gil_scoped_release> release;
    if (!compiled.is_brief) release.emplace();
    const bool records = compiled.training != nullptr;  // its graph says where the program records no gradients
    const at::AutoGradMode as_recorded(records || (compiled.in_grad_mode && c10::GradMode::is_enabled()));
    if (records) {
      runtime::run(compiled.training, in, values);
    } else {
      const runtime::KeptVersions versions(in, compiled.unseen_writes);
      graph.run(in, values);
    }
  };
  const auto pack = [&](int64_t bytes) {
    const py::gil_scoped_release release;
    return compiled.packing->pack(compiled.executable, in, bytes);
  };
  try {
    try {
      run();
    } catch (const runtime::NotPacked& e) {
      values.clear();
      if (!pack(e.bytes)) return failed(failure, kPacksInBackground, GraphRun::NotPacked);
      run();
    }
  } catch (const runtime::FailedAfterWriting& e) {
    try {
      std::rethrow_exception(e.cause);
    } catch (const std::exception& cause) {
      PyErr_SetString(PyExc_RuntimeError, cause.what());
    }
    return GraphRun::Raised;
  } catch (const py::error_already_set& e) {
    if (!e.matches(PyExc_Exception)) return py::error_already_set(e).restore(), GraphRun::Raised;
    return failed(failure, e.what());
  } catch (python_error& e) {
    e.restore();
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return GraphRun::Raised;
    PyErr_Clear();
    return failed(failure, e.what());
  } catch (const Error& e) {
    return failed(failure, e.what(), GraphRun::Refused);
  } catch (const std::exception& e) {
    return failed(failure, e.what());
  }
  if (graph.times_prepacked() != compiled.watched) watch_parameters(compiled, tensors);
  if (!compiled.views.empty()) trace::apply(compiled.views, values, compiled.training != nullptr);
  for (const c10::IValue& v : values) {
    PyObject* x = v.isTensor() ? THPVariable_Wrap(v.toTensor())
                  : v.isInt()  ? PyLong_FromLongLong(v.toInt())
                               : Py_NewRef(Py_None);
    if (!x) return GraphRun::Raised;
    outputs.push_back(Object::take(x));
  }
  detail::return_values(std::move(values));
  return GraphRun::Ran;
}

}  // namespace vesta::capture
