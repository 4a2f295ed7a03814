// Operators on tensors: the functions and methods that are no operators of PyTorch's dispatcher, or that a trace must
// not run as such. All others are known by the dispatcher (`operator_homes` in rows.h).
#include <ATen/core/function_schema.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <string>

#include "capture/python/functions/call_handlers.h"
#include "capture/python/functions/functions.h"
#include "capture/python/functions/rows.h"

namespace vesta::capture {
namespace {

constexpr const char* kReadsMemory = "reads a tensor's memory or changes what it is";
constexpr const char* kSharesMemory = "reads or shares memory";
constexpr const char* kHidden = "says of a tensor what a trace does not know";
// No base is kept for a compiled part of the program: none of it is compiled.
constexpr Callable kViewRelation = refused("asks what a tensor is a view of", Break::ViewRelation);

constexpr FunctionRow kOperatorFunctions[] = {
    {"torch._C", "_VariableFunctions", "as_tensor tensor",
     Callable(Effect::Tensors, handlers::tensor_from_data).and_passable()},
    {"torch._C", "_VariableFunctions",
     "_assert_scalar _nnpack_available _use_cudnn_rnn_flatten_weight can_cast dsmm hsmm is_vulkan_available "
     "promote_types "
     "saddmm spmm sym_constrain_range sym_constrain_range_for_size",
     Effect::Tensors},
    {"torch._C", "_VariableFunctions", "asarray from_file from_numpy frombuffer is_inference", refused(kSharesMemory)},
    {"torch._C._nn", "", "_parse_to", Effect::Tensors},
    // The dispatcher of torch 2.11 does not have these.
    {"torch._C", "_VariableFunctions", "get_device numel", Effect::Tensors},
    {"torch._C", "TensorBase", "dim get_device is_contiguous numel storage_offset", Effect::Tensors},
    {"torch._C", "TensorBase", "has_names", Effect::Tensors, until_torch(11)},
    {"torch._C._nested", "", "nested_tensor", Effect::Tensors},

    {"torch._C", "TensorBase", "item", Callable(Effect::Tensors, handlers::tensor_item).and_passable()},
    {"torch._C", "TensorBase", "requires_grad_", refused(kReadsMemory).handled_by(handlers::require_grad)},
    {"torch._C", "TensorBase", "new", {Effect::Reads, handlers::tensor_new}},
    {"torch._C", "TensorBase", "new_tensor", {Effect::Reads, handlers::new_tensor}},
    {"torch._C", "TensorBase",
     "__add__ __bool__ __complex__ __delitem__ __div__ __eq__ __float__ __floordiv__ __ge__ __getitem__ __gt__ "
     "__iadd__ __idiv__ __ifloordiv__ __imod__ __imul__ __index__ __int__ __invert__ __isub__ __le__ __len__ __long__ "
     "__lt__ __matmul__ __mod__ __mul__ __ne__ __nonzero__ __radd__ __rand__ __rmul__ __ror__ __rxor__ __setitem__ "
     "__sub__ __truediv__",
     Effect::Tensors},
    {"torch._C", "TensorBase",
     "as_subclass bfloat16 bool byte cdouble cfloat char cpu cuda double element_size float half int ipu long mtia "
     "ndimension nelement short type xpu",
     Effect::Tensors},
    {"torch._C", "TensorBase",
     "H T _has_symbolic_sizes_strides device dtype grad_dtype grad_fn is_cpu is_cuda is_ipu is_maia is_meta is_mkldnn "
     "is_mps is_mtia is_nested is_quantized is_sparse is_sparse_csr is_vulkan is_xla is_xpu itemsize layout name "
     "nbytes ndim requires_grad shape",
     Effect::Tensors},
    {"torch._C", "TensorBase",
     "_backward_hooks _fix_weakref _make_subclass _make_wrapper_subclass _post_accumulate_grad_hooks "
     "_rev_view_func_unsafe _view_func _view_func_unsafe apply_ data_ptr map2_ map_ numpy pin_memory "
     "resize_as_sparse_ set_ tolist untyped_storage",
     refused(kReadsMemory)},
    {"torch._C", "TensorBase", "retain_grad", refused(kReadsMemory).handled_by(handlers::retain_gradient)},
    {"torch._C", "TensorBase", "const_data_ptr", refused(kReadsMemory), since_torch(13)},
    {"torch._C", "TensorBase",
     "_cdata _grad _grad_fn _python_dispatch _use_count _version grad is_inference is_pinned output_nr retains_grad "
     "volatile",
     refused(kHidden)},
    {"torch._C", "TensorBase", "_base _is_view", kViewRelation},
};

constexpr OperatorHome kHomes[] = {
    {"torch._C", "_VariableFunctions"}, {"torch._C", "TensorBase"}, {"torch._C._nn", ""},
    {"torch._C._linalg", ""},           {"torch._C._fft", ""},      {"torch._C._special", ""},
    {"torch._C._sparse", ""},           {"torch._C._nested", ""},
};

bool holds_tensor(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::TensorType) return true;
  const auto inner = type.containedTypes();
  return std::any_of(inner.begin(), inner.end(), [](const c10::TypePtr& t) { return holds_tensor(*t); });
}

bool has_tensors(const std::vector<c10::Argument>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const c10::Argument& a) { return holds_tensor(*a.type()); });
}

}  // namespace

Family torch_operators() { return {{}, kOperatorFunctions}; }

std::span<const OperatorHome> operator_homes() { return kHomes; }

// Its objects find a kernel in Python by themselves, with the keys that the dispatcher would use; a kernel in C++, such
// as a trace's, is called through the dispatcher (torch/_ops.py, "PyObject Dispatcher"). The class has no other name.
constexpr ClassRow kOperatorClasses[] = {
    {"torch._C", "type(_dispatch_make_pyobj_dispatch_fns(_dispatch_find_schema_or_throw('aten::relu',''),len,len)[0])",
     since_torch(15)},
};
std::span<const ClassRow> operator_classes() { return kOperatorClasses; }

bool is_operator_on_tensors(std::string_view name) {
  // TorchScript's operators are found by their names, as the dispatcher's are not. They have all of these.
  const auto overloads = torch::jit::getAllOperatorsFor(c10::Symbol::aten(std::string(name)));
  return std::any_of(overloads.begin(), overloads.end(), [](const auto& op) {
    return op->isC10Op() && (has_tensors(op->schema().arguments()) || has_tensors(op->schema().returns()));
  });
}

}  // namespace vesta::capture
