#include "capture/python/tensors/tensor_data.h"

#include <torch/csrc/autograd/python_variable.h>

#include "capture/python/tensors/guarded.h"
#include "trace/tensors/wrapped.h"

namespace vesta::capture {

PyObject* data_of(PyObject* tensor) {
  return guarded([&] {
    const at::Tensor& t = THPVariable_Unpack(tensor);
    if (trace::traced(t) || trace::is_wrapped(t)) return THPVariable_Wrap(t.variable_data());
    trace::Recorder* const r = trace::Recorder::current();
    r->alias_of(t);
    return THPVariable_Wrap(r->fake_of(t).variable_data());
  });
}

bool give_data(PyObject* real, PyObject* made) {
  const auto done = guarded([&]() -> std::optional<bool> {
    trace::Recorder::current()->give_memory(THPVariable_Unpack(real), THPVariable_Unpack(made));
    return true;
  });
  return done.has_value();
}

}  // namespace vesta::capture
