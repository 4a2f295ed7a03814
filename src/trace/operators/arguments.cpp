#include "trace/operators/arguments.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>

#include "base/check.h"
#include "graph/rules/promotion.h"
#include "interop/torch_types.h"
#include "trace/operators/operator_table.h"
#include "trace/recorder.h"

namespace vesta::trace {

using graph::Arg;
using graph::ArgType;
using graph::None;

namespace {

// to_expr() clamps integers far beyond every size; a number must keep its value.
Expr exact(const c10::SymInt& v) {
  const Expr e = to_expr(v);
  if (const auto i = v.maybe_as_int(); i && !e.is_constant(*i)) VESTA_UNSUPPORTED("an integer of more than 62 bits");
  return e;
}

// Slices to the end arrive as the largest integer.
bool is_bound(const graph::SchemaArg& a) { return a.name == "start" || a.name == "end"; }

}  // namespace

Arg to_arg(const c10::Scalar& s) {
  if (s.isBoolean()) return s.toBool();
  if (s.isIntegral(/*includeBool=*/false)) return exact(s.toSymInt());
  if (s.isFloatingPoint()) return s.toSymFloat().guard_float(__FILE__, __LINE__);
  if (s.isComplex()) return std::complex<double>(s.toComplexDouble());
  VESTA_UNSUPPORTED("a symbolic number that is neither an integer nor a float");
}

namespace {

NumberReader number_reader = nullptr;

Arg read_number(const at::Tensor& t) {
  if (number_reader) {
    if (const auto known = number_reader(t)) return to_arg(*known);
  }
  const void* p = t.const_data_ptr();
  switch (t.scalar_type()) {
    case at::kBool: return *static_cast<const bool*>(p);
    case at::kLong: return exact(*static_cast<const int64_t*>(p));
    case at::kDouble: return *static_cast<const double*>(p);
    case at::kComplexDouble: return *static_cast<const std::complex<double>*>(p);
    case at::kFloat: return static_cast<double>(*static_cast<const float*>(p));
    default: VESTA_UNSUPPORTED("a number of type {}", c10::toString(t.scalar_type()));
  }
}

Arg tensor_arg(Recorder& r, const at::Tensor& t) {
  if (!t.defined()) return None{};
  if (auto number = wrapped_number(t)) return *number;
  return r.value_of(t);
}

Arg scalar_arg(const c10::IValue& v) {
  if (v.isSymInt()) return exact(v.toSymInt());
  return to_arg(v.toScalar());
}

Arg generator_arg(const c10::IValue& v) {
  const at::Generator g = v.toGenerator();
  if (g.defined() && !(g == at::globalContext().defaultGenerator(g.device())))
    VESTA_UNSUPPORTED("a random generator other than the default one");
  return None{};
}

Arg device_arg(const c10::IValue& v) {
  const Device d = to_device(v.toDevice());
  if (d.type != DeviceType::CPU && d.type != DeviceType::CUDA) VESTA_UNSUPPORTED("device {}", v.toDevice().str());
  return d;
}

}  // namespace

std::optional<Arg> wrapped_number(const at::Tensor& t) {
  if (!t.unsafeGetTensorImpl()->is_wrapped_number() || t.dim() != 0) return std::nullopt;
  if (TracedTensorImpl* impl = traced(t)) {
    const graph::Value* v = impl->alias().value;
    if (v->producer && v->producer->op->role() == graph::Role::Fill && graph::is_number(v->producer->args()[0]))
      return v->producer->args()[0];
    return std::nullopt;
  }
  if (!t.device().is_cpu()) return std::nullopt;
  return read_number(t);
}

void set_number_reader(NumberReader reader) { number_reader = reader; }

namespace {
c10::SymInt sym_int(const c10::IValue& v) { return v.isSymInt() ? v.toSymInt() : c10::SymInt(v.toInt()); }
}  // namespace

Expr to_int(const c10::IValue& v) { return to_expr(sym_int(v)); }

graph::IntList to_int_list(const c10::IValue& v) {
  graph::IntList out;
  if (v.isIntList()) {
    const auto list = v.toIntList();
    out.reserve(list.size());
    for (const int64_t i : list) out.push_back(exact(i));
  } else if (v.isInt() || v.isSymInt()) {
    out.push_back(to_int(v));
  } else {
    for (const auto& i : v.toListRef()) out.push_back(exact(sym_int(i)));
  }
  return out;
}

std::vector<Arg> to_args(Recorder& r, const Operator& op, c10::ArrayRef<c10::IValue> args) {
  const graph::Schema& schema = op.op->schema;
  std::vector<Arg> out;
  out.reserve(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    const c10::IValue& v = args[i];
    if (v.isNone()) {
      out.emplace_back(None{});
      continue;
    }
    switch (schema.args[i].type) {
      case ArgType::Tensor:
      case ArgType::OptionalTensor: out.push_back(tensor_arg(r, v.toTensor())); break;
      case ArgType::TensorList:
      case ArgType::OptionalTensorList: {
        graph::ValueList list;
        for (const auto& e : v.toListRef())
          list.push_back(e.isNone() || !e.toTensor().defined() ? nullptr : r.value_of(e.toTensor()));
        out.emplace_back(std::move(list));
        break;
      }
      case ArgType::Int: out.emplace_back(is_bound(schema.args[i]) ? to_int(v) : exact(sym_int(v))); break;
      case ArgType::IntList: out.emplace_back(to_int_list(v)); break;
      case ArgType::Float:
        out.emplace_back(v.isSymFloat() ? v.toSymFloat().guard_float(__FILE__, __LINE__) : v.toDouble());
        break;
      case ArgType::FloatList: out.emplace_back(v.toDoubleVector()); break;
      case ArgType::Bool:
        out.emplace_back(v.isSymBool() ? v.toSymBool().guard_bool(__FILE__, __LINE__) : v.toBool());
        break;
      case ArgType::BoolList: {
        const auto list = v.toBoolList();
        out.emplace_back(std::vector<bool>(list.begin(), list.end()));
        break;
      }
      case ArgType::Scalar: out.push_back(scalar_arg(v)); break;
      case ArgType::String: out.emplace_back(v.toStringRef()); break;
      case ArgType::DType: {
        const DType t = to_dtype(v.toScalarType());
        if (t == DType::Other) VESTA_UNSUPPORTED("{} with type {}", op.op->name, c10::toString(v.toScalarType()));
        out.emplace_back(t);
        break;
      }
      case ArgType::Layout:
        if (v.toLayout() != c10::Layout::Strided)
          VESTA_UNSUPPORTED("{} with a layout that is not strided", op.op->name);
        out.emplace_back(Layout::Strided);
        break;
      case ArgType::Device: out.push_back(device_arg(v)); break;
      case ArgType::MemoryFormat: out.emplace_back(to_memory_format(v.toMemoryFormat())); break;
      case ArgType::Generator: out.push_back(generator_arg(v)); break;
      case ArgType::ScalarList:
      case ArgType::Storage:
      case ArgType::Other:
        VESTA_UNSUPPORTED("{}: argument {} has a type that a graph cannot hold", op.op->name, schema.args[i].name);
    }
  }
  return out;
}

}  // namespace vesta::trace
