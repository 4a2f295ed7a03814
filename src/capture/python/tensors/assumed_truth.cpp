#include "capture/python/tensors/assumed_truth.h"

#include <ATen/ops/_assert_async.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/ne.h>
#include <torch/csrc/autograd/python_variable.h>

#include "capture/python/tensors/guarded.h"
#include "trace/tensors/known_value.h"

namespace vesta::capture {

std::optional<bool> assume_truth(PyObject* tensor, bool truth) {
  return guarded([&]() -> std::optional<bool> {
    const at::Tensor& t = THPVariable_Unpack(tensor);
    trace::Recorder* const r = trace::Recorder::current();
    // A check that fails on a GPU makes its context useless.
    if (!r || t.layout() != at::kStrided || t.dim() != 0 || !t.device().is_cpu()) return false;
    if (trace::known_number(*r, t)) return false;
    at::_assert_async(truth ? t.ne(0) : t.eq(0), "a condition of the program leads to an exception");
    return true;
  });
}

}  // namespace vesta::capture
