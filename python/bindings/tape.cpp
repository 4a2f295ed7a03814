#include "tape.h"

#include <pybind11/stl.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_symnode.h>
#include <torch/csrc/utils/tensor_layouts.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include "base/check.h"
#include "base/expr.h"
#include "graph/passes/passes.h"
#include "trace/trace.h"
#include "vesta/error.h"

namespace py = pybind11;

namespace vesta::python {

namespace {

using trace::Tape;
using trace::TapeArg;
using trace::TapeCall;
using trace::TapeTensor;

// An integer that depends on the inputs' sizes, as a postfix program.
struct SymbolicInt {
  std::vector<std::pair<std::string, int64_t>> steps;
};

struct TapeObject {
  std::shared_ptr<const Tape> tape;
};
struct CallObject {
  std::shared_ptr<const Tape> tape;
  size_t index;
  const TapeCall& call() const { return tape->calls[index]; }
};

const char* name_of(ExprProgram::Code code) {
  switch (code) {
    case ExprProgram::Code::Constant: return "constant";
    case ExprProgram::Code::Symbol: return "symbol";
    case ExprProgram::Code::Add: return "add";
    case ExprProgram::Code::Mul: return "mul";
    case ExprProgram::Code::FloorDiv: return "floordiv";
    case ExprProgram::Code::Mod: return "mod";
    case ExprProgram::Code::Min: return "min";
    case ExprProgram::Code::Max: return "max";
  }
  return "";
}

py::object integer(const Tape& tape, Expr e) {
  if (e.is_constant()) return py::int_(e.constant());
  const ExprProgram program = compile(e, [&](Expr symbol) -> int64_t {
    for (size_t i = 0; i < tape.symbols.size(); ++i)
      if (tape.symbols[i].symbol == symbol) return static_cast<int64_t>(i);
    throw InternalError("an integer of a tape depends on a symbol that is not on the tape");
  });
  SymbolicInt out;
  for (const auto& step : program.steps) out.steps.emplace_back(name_of(step.code), step.value);
  return py::cast(std::move(out));
}

py::object value(const Tape& tape, const TapeArg& arg) {
  struct Visitor {
    const Tape& tape;
    py::object operator()(graph::None) const { return py::none(); }
    py::object operator()(TapeTensor t) const { return py::cast(t); }
    py::object operator()(const TapeArg::List& list) const {
      py::list out;
      for (const TapeArg& e : list) out.append(value(tape, e));
      return out;
    }
    py::object operator()(bool v) const { return py::bool_(v); }
    py::object operator()(Expr e) const { return integer(tape, e); }
    py::object operator()(double v) const { return py::float_(v); }
    py::object operator()(std::complex<double> v) const { return py::cast(v); }
    py::object operator()(const std::string& v) const { return py::str(v); }
    py::object operator()(c10::ScalarType v) const {
      return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPDtype(v)));
    }
    py::object operator()(c10::Device v) const { return py::reinterpret_steal<py::object>(THPDevice_New(v)); }
    py::object operator()(c10::MemoryFormat v) const {
      return py::reinterpret_borrow<py::object>(torch::utils::getTHPMemoryFormat(v));
    }
    py::object operator()(c10::Layout v) const {
      return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPLayout(v)));
    }
  };
  return std::visit(Visitor{tape}, arg.value);
}

py::list values(const Tape& tape, const std::vector<TapeArg>& args) {
  py::list out;
  for (const TapeArg& a : args) out.append(value(tape, a));
  return out;
}

std::string full_name(const c10::OperatorName& n) {
  return n.overload_name.empty() ? n.name : n.name + "." + n.overload_name;
}

c10::IValue to_ivalue(py::handle x) {
  if (THPVariable_Check(x.ptr())) return THPVariable_Unpack(x.ptr());
  if (x.is_none()) return {};
  return x.cast<c10::SymInt>();
}

py::tuple trace_tape(const py::function& program, const py::list& inputs,
                     const std::vector<std::vector<bool>>& dynamic) {
  std::vector<trace::TraceInput> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const py::handle x = inputs[i];
    trace::TraceInput in;
    in.value = PyLong_CheckExact(x.ptr()) ? c10::IValue(x.cast<int64_t>()) : to_ivalue(x);
    if (i < dynamic.size()) in.dynamic = dynamic[i];
    given.push_back(std::move(in));
  }
  trace::Traced traced =
      trace::trace(given,
                   [&](const std::vector<c10::IValue>& leaves) {
                     py::list args;
                     for (const c10::IValue& v : leaves) {
                       if (v.isTensor()) {
                         args.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(v.toTensor())));
                       } else {
                         args.append(py::cast(v.toSymInt()));
                       }
                     }
                     const py::object out = program(*args);
                     std::vector<c10::IValue> results;
                     if (PyTuple_Check(out.ptr()) || PyList_Check(out.ptr())) {
                       for (py::handle x : out) results.push_back(to_ivalue(x));
                     } else {
                       results.push_back(to_ivalue(out));
                     }
                     return results;
                   },
                   {.gradients = true});
  if (!traced.tape) VESTA_UNSUPPORTED("a program that computes gradients in a way Vesta does not know on tapes");
  py::list tensors;
  for (const at::Tensor& t : traced.inputs) tensors.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(t)));
  return py::make_tuple(to_python(std::move(traced.tape)), tensors);
}

}  // namespace

py::object to_python(std::shared_ptr<const Tape> tape) { return py::cast(TapeObject{std::move(tape)}); }

void add_tape(py::module_& m) {
  py::class_<TapeTensor>(m, "TapeTensor").def_readonly("index", &TapeTensor::index);
  py::class_<SymbolicInt>(m, "SymbolicInt").def_readonly("steps", &SymbolicInt::steps);
  py::class_<CallObject>(m, "TapeCall")
      .def_property_readonly("op", [](const CallObject& c) { return full_name(c.call().op.operator_name()); })
      .def_property_readonly("args", [](const CallObject& c) { return values(*c.tape, c.call().args); })
      .def_property_readonly("results", [](const CallObject& c) { return values(*c.tape, c.call().results); })
      .def_property_readonly("grad_mode", [](const CallObject& c) { return c.call().grad_mode; });
  py::class_<TapeObject>(m, "Tape")
      .def_property_readonly("calls",
                             [](const TapeObject& t) {
                               py::list out;
                               for (size_t i = 0; i < t.tape->calls.size(); ++i) out.append(CallObject{t.tape, i});
                               return out;
                             })
      .def_property_readonly("inputs",
                             [](const TapeObject& t) {
                               py::list out;
                               for (const TapeTensor& x : t.tape->inputs) out.append(x.index);
                               return out;
                             })
      .def_property_readonly("input_sizes",
                             [](const TapeObject& t) {
                               py::list out;
                               for (const auto& sizes : t.tape->input_sizes) {
                                 py::list one;
                                 for (Expr e : sizes) one.append(integer(*t.tape, e));
                                 out.append(one);
                               }
                               return out;
                             })
      .def_property_readonly("outputs", [](const TapeObject& t) { return values(*t.tape, t.tape->outputs); })
      .def_property_readonly("outputs_require_grad", [](const TapeObject& t) { return t.tape->outputs_require_grad; })
      .def_property_readonly("symbols", [](const TapeObject& t) {
        py::list out;
        for (const graph::SymbolSource& s : t.tape->symbols) out.append(py::make_tuple(s.input, s.dim, s.stride));
        return out;
      });
  m.def("may_raise", [](const std::string& op) { return graph::may_raise(op); }, py::arg("op"));
  m.def("trace_tape", &trace_tape, py::arg("program"), py::arg("inputs"),
        py::arg("dynamic") = std::vector<std::vector<bool>>(),
        "The tape of `program` on these tensors and ints, which returns tensors, ints and None in a flat list or "
        "alone; and the real tensors behind the tape's inputs: those given, in order, then those captured.");
}

}  // namespace vesta::python
