#include "capture/python/tracer/callables.h"

#include <cstring>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "capture/python/object.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/library.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

// Functions of modules. "*" stands for every builtin function of the module.
struct Row {
  const char* module;
  const char* names;  // separated by spaces
  Effect effect;
  Special special = Special::None;
};

constexpr Row kFunctions[] = {
    {"builtins", "all any ascii bin callable chr format hex issubclass oct ord repr round sorted", Effect::Reads},
    {"builtins", "abs divmod max min pow sum", Effect::Reads, Special::Number},
    {"builtins", "getattr", Effect::Special, Special::GetAttr},
    {"builtins", "hasattr", Effect::Special, Special::HasAttr},
    {"builtins", "setattr", Effect::Special, Special::SetAttr},
    {"builtins", "delattr", Effect::Special, Special::DelAttr},
    {"builtins", "isinstance", Effect::Special, Special::IsInstance},
    {"builtins", "iter", Effect::Special, Special::Iter},
    {"builtins", "next", Effect::Special, Special::Next},
    {"builtins", "len", Effect::Special, Special::Len},
    {"builtins", "vars dir", Effect::Special, Special::Vars},
    {"builtins", "id", Effect::Special, Special::Id},
    {"builtins", "hash", Effect::Special, Special::Hash},
    {"builtins", "__build_class__", Effect::Special, Special::BuildClass},
    {"math", "*", Effect::Reads},
    {"cmath", "*", Effect::Reads},
    {"_operator",
     "abs add and_ concat contains countOf eq floordiv ge getitem gt index indexOf inv invert is_ is_not le "
     "length_hint lshift lt matmul mod mul ne neg not_ or_ pos pow rshift sub truediv truth xor call",
     Effect::Reads, Special::Number},
    {"_operator",
     "iadd iand iconcat ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor setitem "
     "delitem",
     Effect::WritesSelf},
    {"_functools", "reduce cmp_to_key", Effect::Reads},
    {"itertools", "tee", Effect::Reads},
    {"_abc", "_abc_instancecheck _abc_subclasscheck _get_dump get_cache_token", Effect::Reads},
    {"_collections", "_count_elements", Effect::WritesSelf},
    {"_bisect", "bisect_left bisect_right", Effect::Reads},
    {"_heapq", "heappush heappop heapify heapreplace heappushpop", Effect::WritesSelf},
    {"_typing", "_idfunc", Effect::Reads},
    {"sys", "intern getrecursionlimit getdefaultencoding", Effect::Reads},
    {"_struct", "calcsize", Effect::Reads},
    {"torch._C._nn", "*", Effect::Tensors},
    {"torch._C._linalg", "*", Effect::Tensors},
    {"torch._C._fft", "*", Effect::Tensors},
    {"torch._C._special", "*", Effect::Tensors},
    {"torch._C._sparse", "*", Effect::Tensors},
    {"torch._C._nested", "*", Effect::Tensors},
    {"torch._C",
     "is_grad_enabled _set_grad_enabled is_inference_mode_enabled is_autocast_enabled is_autocast_cpu_enabled "
     "set_autocast_enabled set_autocast_cpu_enabled get_autocast_dtype get_autocast_gpu_dtype get_autocast_cpu_dtype "
     "set_autocast_dtype set_autocast_gpu_dtype set_autocast_cpu_dtype is_autocast_cache_enabled "
     "set_autocast_cache_enabled autocast_increment_nesting autocast_decrement_nesting clear_autocast_cache "
     "is_any_autocast_enabled _is_any_autocast_enabled _is_autocast_available get_default_dtype _get_default_device "
     "_get_tracing_state _is_torch_function_enabled _is_torch_function_all_disabled _is_torch_function_mode_enabled "
     "_len_torch_function_stack _get_function_stack_at _push_on_torch_function_stack _pop_torch_function_stack "
     "_has_torch_function _has_torch_function_unary _has_torch_function_variadic _disabled_torch_function_impl "
     "_log_api_usage_once _log_api_usage_metadata _is_tracing _get_deterministic_algorithms "
     "_get_deterministic_algorithms_warn_only _get_deterministic_fill_uninitialized_memory get_num_threads "
     "_are_functorch_transforms_active _len_torch_dispatch_stack _is_alias_of _overlaps "
     "_cuda_getDeviceCount _cuda_isInBadFork _get_privateuse1_backend_name _get_accelerator "
     "_accelerator_getAccelerator "
     "_jit_get_profiling_executor _is_cached_tensor _has_storage _dispatch_has_kernel_for_dispatch_key "
     "_get_max_operator_version _infer_size _sdp_utils _select_conv_backend",
     Effect::Torch},
    {"torch._C",
     "_get_mkldnn_enabled _get_cudnn_enabled _get_cudnn_benchmark _get_cudnn_deterministic _get_cudnn_allow_tf32 "
     "_get_cublas_allow_tf32 _get_flash_sdp_enabled _get_mem_efficient_sdp_enabled _get_math_sdp_enabled "
     "_get_cudnn_sdp_enabled _get_overrideable_sdp_enabled _get_nnpack_enabled _get_onednn_allow_tf32 "
     "_get_math_sdp_allow_fp16_bf16_reduction _has_mkldnn _has_cuda is_deterministic_algorithms",
     Effect::Special, Special::Flag},
    {"torch._C._functorch",
     "_vmap_increment_nesting _vmap_decrement_nesting _add_batch_dim _remove_batch_dim is_batchedtensor "
     "maybe_get_level "
     "maybe_get_bdim get_unwrapped is_functorch_wrapped_tensor peek_interpreter_stack _unwrap_batched unwrap_if_dead "
     "get_dynamic_layer_stack_depth maybe_current_level",
     Effect::Torch},
};

// Classes whose methods and getters are known: what writes, and what has a form of its own; the rest reads.
struct ClassRow {
  const char* module;
  const char* names;
  const char* writers = "";
};
constexpr char kInPlace[] = " __setitem__ __delitem__ __iadd__ __imul__ __ior__ __iand__ __isub__ __ixor__ __init__ ";
constexpr ClassRow kClasses[] = {
    {"builtins",
     "object int float bool complex str bytes tuple frozenset range slice enumerate zip map filter reversed "
     "property staticmethod classmethod super type"},
    {"builtins", "memoryview", "release"},
    {"builtins", "list", "append extend insert pop remove clear sort reverse"},
    {"builtins", "dict", "clear pop popitem setdefault update"},
    {"builtins", "set",
     "add clear difference_update discard intersection_update pop remove symmetric_difference_update "
     "update"},
    {"builtins", "bytearray", "append extend insert pop remove clear reverse"},
    {"collections", "deque", "append appendleft clear extend extendleft insert pop popleft remove reverse rotate"},
    {"collections", "OrderedDict", "clear pop popitem setdefault update move_to_end"},
    {"collections", "defaultdict", "clear pop popitem setdefault update __missing__"},
    {"types",
     "NoneType EllipsisType NotImplementedType FunctionType MethodType BuiltinFunctionType "
     "BuiltinMethodType WrapperDescriptorType MethodWrapperType MethodDescriptorType ClassMethodDescriptorType "
     "GetSetDescriptorType MemberDescriptorType ModuleType CellType CodeType GeneratorType MappingProxyType "
     "SimpleNamespace GenericAlias UnionType TracebackType"},
    {"itertools",
     "accumulate chain combinations combinations_with_replacement compress count cycle dropwhile "
     "filterfalse groupby islice pairwise permutations product repeat starmap takewhile zip_longest _tee "
     "_grouper batched"},
    {"functools", "partial"},
    {"operator", "itemgetter attrgetter methodcaller"},
    {"re", "Pattern Match"},
    // From 3.12 on type variables are C's, and run functions of the module typing.
    {"typing", PY_VERSION_HEX >= 0x030c0000 ? "Generic" : "TypeVar ParamSpec TypeVarTuple Generic"},
    {"contextvars", "Token"},
    {"weakref", "ReferenceType"},
    {"torch", "Size dtype device layout memory_format finfo iinfo"},
    {"torch._C", "DisableTorchFunctionSubclass DisableTorchFunction _DisableFuncTorch"},
};

// Tensors' methods that read memory, or change more than values.
constexpr char kRefusedTensorMethods[] =
    " tolist numpy data_ptr untyped_storage _typed_storage storage apply_ map_ map2_ share_memory_ pin_memory set_ "
    "requires_grad_ retain_grad register_hook _register_hook register_post_accumulate_grad_hook _make_subclass "
    "_make_wrapper_subclass _make_dtensor __dlpack__ _backward_hooks _post_accumulate_grad_hooks "
    "is_shared _set_version_counter_ _clear_non_serializable_cached_data _view_func _view_func_unsafe "
    "_rev_view_func_unsafe resize_as_sparse_ ";
// What eager's result of the same kind would say, a trace does not know.
constexpr char kHiddenTensorMethods[] = " is_inference retains_grad output_nr is_pinned _version grad ";
// No base is kept for a compiled part of the program: none of it is compiled.
constexpr char kViewMethods[] = " _is_view _base ";
constexpr char kRefusedFunctions[] =
    " is_inference from_numpy frombuffer from_file asarray _from_functional_tensor "
    "_to_functional_tensor _sync _enable_functionalization _disable_functionalization ";

bool in_list(std::string_view list, std::string_view name) {
  size_t at = 0;
  while ((at = list.find(name, at)) != std::string_view::npos) {
    const bool begins = at == 0 || list[at - 1] == ' ';
    const size_t end = at + name.size();
    if (begins && (end == list.size() || list[end] == ' ')) return true;
    at = end;
  }
  return false;
}

template <class F>
void each_name(std::string_view list, F&& f) {
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(' ', at), list.size());
    if (end > at) f(std::string(list.substr(at, end - at)));
    at = end + 1;
  }
}

struct WrapperObject {  // method-wrapper: a slot descriptor bound to an object
  PyObject_HEAD PyWrapperDescrObject* descr;
  PyObject* self;
};

struct Table {
  std::unordered_map<const void*, Callable> functions;              // PyMethodDef*
  std::map<std::pair<const void*, PyTypeObject*>, Callable> slots;  // wrapperbase*, class
  std::unordered_set<PyTypeObject*> classes;
  const PyMethodDef* new_method = nullptr;
};
Table* table = nullptr;

Callable with(Effect e, Special s = Special::None) { return {e, s, nullptr}; }

Callable slot_of(std::string_view name, std::string_view writers) {
  if (name == "__setattr__") return with(Effect::Special, Special::ObjectSetAttr);
  if (name == "__delattr__") return with(Effect::Special, Special::ObjectDelAttr);
  if (name == "__getattribute__") return with(Effect::Special, Special::ObjectGetAttr);
  if (name == "__next__") return with(Effect::Special, Special::Next);
  if (name == "__iter__") return with(Effect::Special, Special::Iter);
  if (name == "__len__") return with(Effect::Special, Special::Len);
  return with(in_list(kInPlace, name) && !writers.empty() ? Effect::WritesSelf : Effect::Reads);
}

// The class's own attributes, as a new dict. (Static classes have no tp_dict in newer versions.)
Object attributes_of(PyTypeObject* type) {
  Object proxy = Object::take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dict__"));
  Object dict = Object::take(PyDict_New());
  if (!proxy || !dict || PyDict_Update(dict.get(), proxy.get()) < 0) PyErr_Clear();
  return dict;
}

template <class F>
void each_attribute(PyTypeObject* type, F&& f) {
  const Object dict = attributes_of(type);
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (dict && PyDict_Next(dict.get(), &at, &key, &value)) {
    const char* name = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : nullptr;
    if (name)
      f(std::string_view(name), value);
    else
      PyErr_Clear();
  }
}

void add_class(Table& t, PyTypeObject* type, std::string_view writers) {
  t.classes.insert(type);
  each_attribute(type, [&](std::string_view name, PyObject* value) {
    if (Py_TYPE(value) == &PyMethodDescr_Type || Py_TYPE(value) == &PyClassMethodDescr_Type) {
      Callable c = with(in_list(writers, name) ? Effect::WritesSelf : Effect::Reads);
      if (type == &PyList_Type && (name == "append" || name == "extend")) c = with(Effect::Appends);
      if (type == &PyDict_Type && name == "get") c = with(Effect::Special, Special::DictGet);
      if (type == &PyDict_Type && name == "pop") c = with(Effect::Special, Special::DictPop);
      if (type == &PyDict_Type && name == "setdefault") c = with(Effect::Special, Special::DictSetDefault);
      if (type == &PyDict_Type && name == "update") c = with(Effect::Special, Special::DictUpdate);
      if (name == "__reduce_ex__" || name == "__reduce__" || name == "__getstate__" || name == "__dir__")
        c = with(Effect::ReadsState);
      if (name == "__setstate__") c = with(Effect::WritesSelf);
      t.functions[reinterpret_cast<PyMethodDescrObject*>(value)->d_method] = c;
    } else if (Py_TYPE(value) == &PyWrapperDescr_Type) {
      t.slots[{reinterpret_cast<PyWrapperDescrObject*>(value)->d_base, type}] = slot_of(name, writers);
    } else if (Py_TYPE(value) == &PyStaticMethod_Type) {
      const Object f = Object::take(PyObject_GetAttrString(value, "__func__"));
      if (f && PyCFunction_Check(f.get()))
        t.functions[reinterpret_cast<PyCFunctionObject*>(f.get())->m_ml] = with(Effect::Reads);
      PyErr_Clear();
    }
  });
}

Object import(const char* module) {
  PyObject* m = PyImport_ImportModule(module);
  if (!m) {
    // torch._C's inner modules are attributes only.
    PyErr_Clear();
    const std::string path = module;
    const size_t dot = path.rfind('.');
    if (dot == std::string::npos) return {};
    const Object parent = import(path.substr(0, dot).c_str());
    m = parent ? PyObject_GetAttrString(parent.get(), path.c_str() + dot + 1) : nullptr;
    if (!m) PyErr_Clear();
  }
  return Object::take(m);
}

void add_functions(Table& t, const Row& row) {
  const Object module = import(row.module);
  if (!module) return;
  auto add = [&](PyObject* f) {
    if (f && PyCFunction_Check(f))
      t.functions[reinterpret_cast<PyCFunctionObject*>(f)->m_ml] = with(row.effect, row.special);
  };
  if (std::strcmp(row.names, "*") == 0) {
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(PyModule_GetDict(module.get()), &at, &key, &value)) add(value);
    return;
  }
  each_name(row.names, [&](const std::string& name) {
    const Object f = Object::take(PyObject_GetAttrString(module.get(), name.c_str()));
    if (!f) PyErr_Clear();
    add(f.get());
  });
}

void add_tensor_operators(Table& t) {
  const Object c = import("torch._C");
  const Object functions = Object::take(PyObject_GetAttrString(c.get(), "_VariableFunctions"));
  if (functions) {
    const Object names = Object::take(PyObject_Dir(functions.get()));
    for (Py_ssize_t i = 0; names && i < PyList_GET_SIZE(names.get()); ++i) {
      PyObject* name = PyList_GET_ITEM(names.get(), i);
      const Object f = Object::take(PyObject_GetAttr(functions.get(), name));
      if (!f) PyErr_Clear();
      if (!f || !PyCFunction_Check(f.get())) continue;
      Callable k = with(Effect::Tensors);
      if (in_list(kRefusedFunctions, PyUnicode_AsUTF8(name)))
        k = {Effect::Refused, Special::None, "reads or shares memory"};
      if (in_list("tensor as_tensor", PyUnicode_AsUTF8(name))) k.special = Special::FromData;
      t.functions[reinterpret_cast<PyCFunctionObject*>(f.get())->m_ml] = k;
    }
  }
  PyErr_Clear();
  const Object base = Object::take(PyObject_GetAttrString(c.get(), "TensorBase"));
  if (!base) {
    PyErr_Clear();
    return;
  }
  auto* type = reinterpret_cast<PyTypeObject*>(base.get());
  each_attribute(type, [&](std::string_view name, PyObject* value) {
    Callable k = with(Effect::Tensors);
    if (in_list(kRefusedTensorMethods, name))
      k = {Effect::Refused, Special::None, "reads a tensor's memory or changes what it is"};
    if (name == "new") k = {Effect::Special, Special::TensorNew};
    if (name == "new_tensor") k = {Effect::Special, Special::NewTensor};
    if (in_list(kViewMethods, name)) k = {Effect::Refused, Special::ViewRelation, "asks what a tensor is a view of"};
    if (in_list(kHiddenTensorMethods, name))
      k = {Effect::Refused, Special::None, "says of a tensor what a trace does not know"};
    if (Py_TYPE(value) == &PyMethodDescr_Type) t.functions[reinterpret_cast<PyMethodDescrObject*>(value)->d_method] = k;
    if (Py_TYPE(value) == &PyWrapperDescr_Type)
      t.slots[{reinterpret_cast<PyWrapperDescrObject*>(value)->d_base, type}] = k;
    if (Py_TYPE(value) == &PyGetSetDescr_Type) t.functions[reinterpret_cast<PyGetSetDescrObject*>(value)->d_getset] = k;
  });
}

void add_iterators(Table& t) {
  // By what makes them: their classes have no names of their own.
  static const char* const kMakers[] = {"iter([])",
                                        "iter(())",
                                        "iter({})",
                                        "iter({}.values())",
                                        "iter({}.items())",
                                        "iter(set())",
                                        "iter(range(0))",
                                        "iter('')",
                                        "iter('\u00e9')",
                                        "iter(b'')",
                                        "reversed([])",
                                        "reversed({})",
                                        "reversed(range(0))",
                                        "{}.keys()",
                                        "{}.values()",
                                        "{}.items()",
                                        "iter(int, 1)",
                                        "iter(range(2**70))",
                                        "__import__('collections').OrderedDict().keys()",
                                        "__import__('collections').OrderedDict().values()",
                                        "__import__('collections').OrderedDict().items()",
                                        "iter(__import__('collections').OrderedDict())",
                                        "iter(__import__('collections').deque())",
                                        "reversed({}.values())",
                                        "reversed({}.items())",
                                        "reversed(__import__('collections').deque())",
                                        "iter(type('S', (), {'__getitem__': lambda s, i: 0})())",
                                        "next(__import__('itertools').groupby('a'))[1]",
                                        "__import__('re').finditer('a', 'a')"};
  const Object globals = Object::take(PyDict_New());
  PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
  for (const char* maker : kMakers) {
    const Object x = Object::take(PyRun_String(maker, Py_eval_input, globals.get(), globals.get()));
    if (x)
      add_class(t, Py_TYPE(x.get()), "");
    else
      PyErr_Clear();
  }
}

// What operators with several results return: tuples with names.
void add_result_tuples(Table& t) {
  const Object module = import("torch.return_types");
  if (!module) return;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(PyModule_GetDict(module.get()), &at, &key, &value))
    if (PyType_Check(value) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(value), &PyTuple_Type))
      add_class(t, reinterpret_cast<PyTypeObject*>(value), "");
}

void add_autograd_function(Table& t) {
  const Object module = import("torch._C");
  const Object base = Object::take(module ? PyObject_GetAttrString(module.get(), "_FunctionBase") : nullptr);
  const Object apply = Object::take(base ? PyObject_GetAttrString(base.get(), "apply") : nullptr);
  PyErr_Clear();
  if (apply && PyCFunction_Check(apply.get()))
    t.functions[reinterpret_cast<PyCFunctionObject*>(apply.get())->m_ml] =
        with(Effect::Special, Special::AutogradFunction);
}

void add_context_variables(Table& t) {
  for (const auto& [name, special] : {std::pair{"get", Special::ContextGet}, std::pair{"set", Special::ContextSet},
                                      std::pair{"reset", Special::ContextReset}}) {
    const Object method = Object::take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyContextVar_Type), name));
    PyErr_Clear();
    if (method && Py_TYPE(method.get()) == &PyMethodDescr_Type)
      t.functions[reinterpret_cast<PyMethodDescrObject*>(method.get())->d_method] = with(Effect::Special, special);
  }
}

void add_exceptions(Table& t) {
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(PyEval_GetBuiltins(), &at, &key, &value))
    if (PyExceptionClass_Check(value)) add_class(t, reinterpret_cast<PyTypeObject*>(value), "add_note with_traceback");
}

}  // namespace

bool load_callables() {
  if (table) return true;
  auto* t = new Table();
  for (const ClassRow& row : kClasses) {
    const Object module = import(row.module);
    if (!module) continue;
    each_name(row.names, [&](const std::string& name) {
      const Object type = Object::take(PyObject_GetAttrString(module.get(), name.c_str()));
      if (!type) PyErr_Clear();
      if (type && PyType_Check(type.get())) add_class(*t, reinterpret_cast<PyTypeObject*>(type.get()), row.writers);
    });
  }
  add_iterators(*t);
  add_exceptions(*t);
  add_result_tuples(*t);
  add_autograd_function(*t);
  add_context_variables(*t);
  for (const Row& row : kFunctions) add_functions(*t, row);
  add_tensor_operators(*t);
  const Object globals = Object::take(PyDict_New());
  PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
  const Object maker = Object::take(PyRun_String("object.__new__", Py_eval_input, globals.get(), globals.get()));
  if (!maker) {
    delete t;
    return false;
  }
  t->new_method = reinterpret_cast<PyCFunctionObject*>(maker.get())->m_ml;
  PyErr_Clear();
  table = t;
  return true;
}

bool is_torch_operator(PyObject* f) {
  if (!PyCFunction_Check(f)) return false;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(f)->m_module;
  const char* name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  // What begins and ends a profiler's range is no operator on tensors: a trace would leave a range of its own.
  return name && std::strncmp(name, "torch._ops.", 11) == 0 && std::strcmp(name + 11, "profiler") != 0;
}

bool is_data(PyObject* x, int depth) {
  if (is_scalar(x) || is_base_tensor(x) || is_symbolic(x)) return true;
  if (is_tensor(x)) {  // a Parameter
    static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
    PyObject* f = _PyType_Lookup(Py_TYPE(x), name);
    return f && PyCFunction_Check(f) &&
           std::strcmp(reinterpret_cast<PyCFunctionObject*>(f)->m_ml->ml_name, "_disabled_torch_function_impl") == 0;
  }
  if (PyList_CheckExact(x) || (PyTuple_Check(x) && !is_python_class(Py_TYPE(x)))) {
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(x);
    if (depth == 0 || size > 16) return false;
    for (Py_ssize_t i = 0; i < size; ++i)
      if (!is_data(PySequence_Fast_GET_ITEM(x, i), depth - 1)) return false;
    return true;
  }
  const std::string_view type = Py_TYPE(x)->tp_name;
  return PySlice_Check(x) || type == "torch.dtype" || type == "torch.device" || type == "torch.layout" ||
         type == "torch.memory_format";
}

bool is_c_iterator(PyObject* x) {
  PyTypeObject* base = c_base(Py_TYPE(x));
  return PyIter_Check(x) && base && base->tp_iternext;
}

bool is_imported(PyObject* module) {
  const Object name = Object::take(PyModule_GetNameObject(module));
  PyObject* found = name ? PyDict_GetItemWithError(PyImport_GetModuleDict(), name.get()) : nullptr;
  PyErr_Clear();
  return found == module;
}

bool writes_by_operators(PyTypeObject* type) {
  static PyObject* const by_attribute[] = {PyUnicode_InternFromString("__setattr__"),
                                           PyUnicode_InternFromString("__delattr__")};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (!is_python_class(base) || !base->tp_dict) continue;
    PyObject *name = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(base->tp_dict, &at, &name, &value)) {
      if (Py_TYPE(value) != &PyMethodDescr_Type && Py_TYPE(value) != &PyWrapperDescr_Type) continue;
      PyObject* own = reinterpret_cast<PyDescrObject*>(value)->d_name;
      if (!PyUnicode_Check(name) || PyUnicode_READ_CHAR(name, 0) != '_' || PyUnicode_Compare(own, name) == 0) continue;
      if (name == by_attribute[0] || name == by_attribute[1]) continue;  // those are called as what they are
      if (PyType_IsSubtype(tensor_class(), reinterpret_cast<PyDescrObject*>(value)->d_type)) continue;
      const Callable known = known_callable(value);
      const bool reads = known.effect == Effect::Reads || known.effect == Effect::ReadsState ||
                         known.special == Special::DictGet || known.special == Special::Len ||
                         known.special == Special::Iter || known.special == Special::ObjectGetAttr;
      if (!reads) return true;
    }
  }
  return false;
}

bool is_disabled(PyObject* function) {
  static PyObject* const flag = PyUnicode_InternFromString("_torchdynamo_disable");
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  return dict && PyDict_GetItemWithError(dict, flag) == Py_True;
}

namespace {
// Compared by the code: a decorator may have made a function of its own from it.
bool is_function_of(const char* module, const char* name, PyObject* function) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  if (PyUnicode_CompareWithASCIIString(code->co_name, name) != 0) return false;
  PyObject* m = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  PyObject* f = m && PyModule_Check(m) ? PyDict_GetItemString(PyModule_GetDict(m), name) : nullptr;
  return f && PyFunction_Check(f) && PyFunction_GET_CODE(f) == PyFunction_GET_CODE(function);
}
}  // namespace

bool says_is_compiling(PyObject* function) {
  return is_function_of("torch.compiler", "is_compiling", function) ||
         is_function_of("torch._dynamo.external_utils", "is_compiling", function) ||
         is_function_of("vesta", "is_compiling", function);
}

bool gives_compiled(PyObject* function) { return is_function_of("vesta.compiled_method", "as_compiled", function); }
bool says_is_dynamo_compiling(PyObject* function) {
  return is_function_of("torch.compiler", "is_dynamo_compiling", function);
}

bool asks_for_a_break(PyObject* function) {
  return is_function_of("torch._dynamo", "graph_break", function) ||
         is_function_of("torch._dynamo.decorators", "skip_frame", function) ||
         is_function_of("torch._dynamo.decorators", "step_unsupported", function);
}

PyObject* disabled_alone(PyObject* function) {
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  if (!is_disabled(function) || PyDict_GetItemString(dict, "_torchdynamo_disable_recursive") != Py_False)
    return nullptr;
  return PyDict_GetItemString(dict, "_torchdynamo_orig_callable");
}

namespace {

// Made by the dataclass decorator: asks the fields, and nobody else.
bool is_of_dataclass(PyCodeObject* code) {
  const char* name = PyUnicode_AsUTF8(code->co_qualname);
  if (!name) PyErr_Clear();
  return name && std::strncmp(name, "__create_fn__.<locals>.", 23) == 0;
}

bool has_fields_of_program(PyObject* x) {
  static PyObject* const name = PyUnicode_InternFromString("__dataclass_fields__");
  PyObject* fields = _PyType_Lookup(Py_TYPE(x), name);
  PyObject* field = nullptr;
  Py_ssize_t at = 0;
  while (fields && PyDict_Check(fields) && PyDict_Next(fields, &at, &field, nullptr)) {
    const Object value = Object::take(PyObject_GenericGetAttr(x, field));
    PyErr_Clear();
    if (!value || is_hashed_by_program(value.get())) return true;
  }
  return false;
}

}  // namespace

bool is_hashed_by_program(PyObject* x) {
  if (is_scalar(x)) return false;
  if (PyTuple_Check(x))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); ++i)
      if (is_hashed_by_program(PyTuple_GET_ITEM(x, i))) return true;
  if (!is_python_class(Py_TYPE(x))) return false;
  static PyObject* const names[] = {PyUnicode_InternFromString("__hash__"), PyUnicode_InternFromString("__eq__")};
  for (PyObject* name : names) {
    PyObject* f = _PyType_Lookup(Py_TYPE(x), name);
    if (!f || f == Py_None || Py_TYPE(f) == &PyWrapperDescr_Type) continue;
    if (!PyFunction_Check(f)) return true;
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(f));
    if (is_standard_library(code) || is_installed_package(code)) continue;
    if (!is_of_dataclass(code) || has_fields_of_program(x)) return true;
  }
  return false;
}

bool is_hashed_by_python(PyObject* x) {
  if (is_scalar(x)) return false;
  if (PyTuple_Check(x))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); ++i)
      if (is_hashed_by_python(PyTuple_GET_ITEM(x, i))) return true;
  static PyObject* const names[] = {PyUnicode_InternFromString("__hash__"), PyUnicode_InternFromString("__eq__")};
  for (PyObject* name : names)
    if (PyObject* f = _PyType_Lookup(Py_TYPE(x), name); f && f != Py_None && Py_TYPE(f) != &PyWrapperDescr_Type)
      return true;
  return false;
}

namespace {
bool has_key(PyObject* c, bool (*of_kind)(PyObject*)) {
  if (PyDict_Check(c)) {
    PyObject* key = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(c, &at, &key, nullptr);)
      if (of_kind(key)) return true;
    return false;
  }
  const Object keys = Object::take(PySet_Type.tp_iter(c));  // not what a class of the program's makes of it
  while (keys) {
    const Object key = Object::take(Py_TYPE(keys.get())->tp_iternext(keys.get()));
    if (!key || of_kind(key.get())) return static_cast<bool>(key);
  }
  return false;
}
}  // namespace

bool has_keys_of_program(PyObject* c) { return has_key(c, is_hashed_by_program); }
bool has_keys_of_python(PyObject* c) { return has_key(c, is_hashed_by_python); }

bool is_known_class(PyTypeObject* type) { return table->classes.contains(type); }

namespace {

Callable find_function(const void* definition) {
  const auto it = table->functions.find(definition);
  return it == table->functions.end() ? Callable{} : it->second;
}

}  // namespace

Callable known_callable(PyObject* f) {
  if (PyCFunction_Check(f)) {
    const auto* c = reinterpret_cast<PyCFunctionObject*>(f);
    if (c->m_ml == table->new_method) {
      auto* type = c->m_self && PyType_Check(c->m_self) ? reinterpret_cast<PyTypeObject*>(c->m_self) : nullptr;
      if (type && PyType_IsSubtype(type, &PyType_Type)) return {Effect::Refused, Special::None, "makes a class"};
      return type && is_known_class(type) ? with(Effect::Reads) : Callable{};
    }
    if (is_torch_operator(f)) return with(Effect::Tensors);
    return find_function(c->m_ml);
  }
  PyTypeObject* type = Py_TYPE(f);
  if (std::strcmp(type->tp_name, "numpy.ufunc") == 0 ||
      std::strcmp(type->tp_name, "numpy._ArrayFunctionDispatcher") == 0)
    return with(Effect::Special, Special::NumPy);
  if (type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type)
    return find_function(reinterpret_cast<PyMethodDescrObject*>(f)->d_method);
  if (type == &PyGetSetDescr_Type) return find_function(reinterpret_cast<PyGetSetDescrObject*>(f)->d_getset);
  if (is_method_wrapper(f)) f = reinterpret_cast<PyObject*>(reinterpret_cast<WrapperObject*>(f)->descr);
  if (Py_TYPE(f) == &PyWrapperDescr_Type) {
    auto* d = reinterpret_cast<PyWrapperDescrObject*>(f);
    const auto it = table->slots.find({d->d_base, d->d_common.d_type});
    return it == table->slots.end() ? Callable{} : it->second;
  }
  if (PyType_Check(f)) {
    auto* t = reinterpret_cast<PyTypeObject*>(f);
    PyTypeObject* base = c_base(t);
    return base && is_known_class(base) ? with(Effect::Reads) : Callable{};
  }
  if (is_known_class(type)) return with(Effect::Reads);
  return {};
}

std::string name_of_callable(PyObject* f) {
  if (!PyCFunction_Check(f) && !PyType_Check(f) && !PyFunction_Check(f) && Py_TYPE(f) != &PyMethodDescr_Type &&
      Py_TYPE(f) != &PyWrapperDescr_Type)
    return std::string("an object of class ") + Py_TYPE(f)->tp_name;
  std::string out;
  // pybind11's functions are methods of an object that nobody has heard of.
  PyObject* self = PyCFunction_Check(f) ? PyCFunction_GET_SELF(f) : nullptr;
  const bool is_bound_by_pybind = self && std::strstr(Py_TYPE(self)->tp_name, "pybind11_detail_function_record");
  for (const char* part : {"__module__", is_bound_by_pybind ? "__name__" : "__qualname__"}) {
    const Object x = Object::take(PyObject_GetAttrString(f, part));
    const char* text = x && PyUnicode_Check(x.get()) ? PyUnicode_AsUTF8(x.get()) : nullptr;
    PyErr_Clear();
    if (!text || std::strcmp(text, "builtins") == 0) continue;
    if (!out.empty()) out += ".";
    out += text;
  }
  return out.empty() ? "a function" : out;
}

}  // namespace vesta::capture
