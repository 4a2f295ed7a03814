#include "capture/python/functions/compilers.h"

#include <algorithm>

#include "capture/python/functions/code_origin.h"
#include "capture/python/object.h"

namespace vesta::capture {
namespace {

// A file of torch's, by its path in the package; empty for others.
std::string_view file_in_torch(PyCodeObject* code) {
  static const std::string folder = folder_of("torch");
  const std::string_view file = utf8_of(code->co_filename);
  return !folder.empty() && file.starts_with(folder) ? file.substr(folder.size()) : std::string_view();
}

template <size_t N>
bool is_in(std::string_view path, const std::string_view (&places)[N]) {
  return !path.empty() &&
         std::any_of(std::begin(places), std::end(places), [&](std::string_view p) { return path.starts_with(p); });
}

// `name` or what is below it.
template <size_t N>
bool is_of(std::string_view module, const std::string_view (&names)[N]) {
  return std::any_of(std::begin(names), std::end(names), [&](std::string_view n) {
    return module.starts_with(n) && (module.size() == n.size() || module[n.size()] == '.');
  });
}

constexpr std::string_view kCompilers[] = {"_dynamo/",
                                           "_inductor/__init__.py",
                                           "_inductor/compile_fx.py",
                                           "_functorch/_aot_autograd/",
                                           "_functorch/aot_autograd.py",
                                           "_functorch/partitioners.py",
                                           "export/",
                                           "_export/"};
// Parts of these that programs call, or that torch runs in eager mode too.
constexpr std::string_view kPartsOfPrograms[] = {"_dynamo/_trace_wrapped_higher_order_op.py",
                                                 "_dynamo/comptime.py",
                                                 "_dynamo/decorators.py",
                                                 "_dynamo/external_utils.py",
                                                 "_dynamo/polyfills/",
                                                 "_dynamo/testing.py",
                                                 "_dynamo/utils.py",
                                                 "_export/utils.py",
                                                 "_export/wrappers.py",
                                                 "export/_unlift.py",
                                                 "export/unflatten.py"};
constexpr std::string_view kTracers[] = {"_higher_order_ops/",
                                         "_subclasses/",
                                         "fx/_symbolic_trace.py",
                                         "fx/experimental/",
                                         "fx/proxy.py",
                                         "jit/",
                                         "onnx/",
                                         "_guards.py",
                                         "_library/",
                                         "_logging/",
                                         "_dynamo/",
                                         "_inductor/"};

}  // namespace

bool is_code_of_compiler(PyCodeObject* code) {
  const std::string_view path = file_in_torch(code);
  if (!is_in(path, kCompilers) || is_in(path, kPartsOfPrograms)) return false;
  // torch.compile's wrapper of a module is a module like others.
  const std::string_view name = utf8_of(code->co_qualname);
  if (name.starts_with("OptimizedModule.") || name == "_set_in_optimized_module") return false;
  // What runs around every module's __init__ once Dynamo is imported: it notes the module and goes on.
  return !name.starts_with("install_generation_tagging_init.");
}

bool enters_compiler(PyCodeObject* code) {
  const std::string_view path = file_in_torch(code);
  if (path.empty()) return false;
  if (path == "__init__.py") return utf8_of(code->co_qualname) == "compile";
  return is_in(path, kTracers) || is_code_of_compiler(code);
}

bool updates_parameters(PyCodeObject* code) {
  if (!file_in_torch(code).starts_with("optim/") || (code->co_flags & CO_VARARGS) || code->co_argcount == 0)
    return false;
  return utf8_of(PyTuple_GET_ITEM(code->co_localsplusnames, 0)) != "self";
}

bool runs_autograd(PyCodeObject* code) {
  const std::string_view path = file_in_torch(code), name = utf8_of(code->co_qualname);
  if (path == "_tensor.py") return name == "Tensor.backward";
  if (path == "autograd/graph.py") return name == "_engine_run_backward";
  return path == "autograd/__init__.py" && (name == "backward" || name == "grad");
}

bool runs_transform(PyCodeObject* code) {
  constexpr std::string_view kTransforms[] = {"_functorch/apis.py", "_functorch/deprecated.py",
                                              "_functorch/eager_transforms.py", "_functorch/vmap.py"};
  return is_in(file_in_torch(code), kTransforms);
}

bool relays_is_compiling(std::string_view module) {
  constexpr std::string_view kRelays[] = {"torch._utils", "torch.compiler", "torch._dynamo.external_utils",
                                          "vesta.eager"};
  return is_of(module, kRelays);
}

bool computes_otherwise_compiled(std::string_view module) {
  // Told no, these would read tensors' values, look into closures or refuse; their results are the same either way.
  constexpr std::string_view kSame[] = {"torch.autograd",          "torch._functorch",
                                        "torch._higher_order_ops", "torch.nn.attention.flex_attention",
                                        "torch._dynamo",           "torch.testing"};
  constexpr std::string_view kTorch[] = {"torch"};
  return is_of(module, kTorch) && !is_of(module, kSame);
}

bool enters_dynamo_unless_compiling(std::string_view module) {
  constexpr std::string_view kModules[] = {"torch._higher_order_ops", "torch.nn.attention.flex_attention"};
  return is_of(module, kModules);
}

}  // namespace vesta::capture
