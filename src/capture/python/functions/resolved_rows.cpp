// What the rows of C functions mean in this process.
#include <algorithm>

#include "capture/python/functions/functions.h"
#include "capture/python/functions/resolve.h"
#include "capture/python/functions/rows.h"
#include "capture/python/values/names.h"

namespace vesta::capture {
namespace {

ResolvedRow resolved(const FunctionRow& row, std::string name, const std::vector<Object>& functions) {
  const bool is_found = std::ranges::any_of(functions, [&](const Object& f) {
    const Callable known = known_callable(f.get());
    return known.effect == row.known.effect && known.handler == row.known.handler;
  });
  return {std::move(name), std::string(name_of(row.known.effect)), is_here(row.versions), is_found};
}

void resolve_classes(const ClassRow& row, std::vector<ResolvedRow>& out) {
  const Object module = Object::take(PyImport_ImportModule(row.module));
  each_name(row.classes, [&](std::string_view text) {
    const std::string name(text);
    const Object type = module ? evaluate(module.get(), name) : Object();
    const bool is_found =
        type && PyType_Check(type.get()) && is_known_class(reinterpret_cast<PyTypeObject*>(type.get()));
    out.push_back({row.module + ("." + name), "class", is_here(row.versions), is_found});
  });
}

void resolve_functions(const FunctionRow& row, std::vector<ResolvedRow>& out) {
  if (!Object::take(PyImport_ImportModule(row.module))) PyErr_Clear();  // an inner module of torch._C
  const auto of_class = [&](const std::string& owner) {
    const FunctionRow one = {row.module, owner.c_str(), row.names, row.known, row.versions};
    each_name(row.names, [&](std::string_view name) {
      std::string whole = row.module + ("." + owner) + (owner.empty() ? "" : ".") + std::string(name);
      out.push_back(resolved(row, std::move(whole), functions_of(one, std::string(name))));
    });
  };
  if (*row.classes == 0) of_class("");
  each_name(row.classes, [&](std::string_view owner) { of_class(std::string(owner)); });
}

void resolve_special(const FunctionRow& row, std::vector<ResolvedRow>& out) {
  each_name(row.names, [&](std::string_view name) {
    std::vector<Object> methods;
    for (PyTypeObject* type : known_classes())
      if (Object f = c_function_of(reinterpret_cast<PyObject*>(type), std::string(name)))
        methods.push_back(std::move(f));
    out.push_back(resolved(row, std::string(name), methods));
  });
}

}  // namespace

std::vector<ResolvedRow> resolved_rows() {
  std::vector<ResolvedRow> out;
  std::vector<Family> all(families().begin(), families().end());
  all.push_back(numpy_functions());
  for (const Family& family : all) {
    for (const ClassRow& row : family.classes) resolve_classes(row, out);
    for (const FunctionRow& row : family.functions) resolve_functions(row, out);
  }
  for (const FunctionRow& row : special_methods()) resolve_special(row, out);
  PyErr_Clear();
  return out;
}

}  // namespace vesta::capture
