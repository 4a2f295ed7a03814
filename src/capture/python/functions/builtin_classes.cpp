// Classes of numbers, strings, functions and other objects that hold no items to write, with their methods.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/functions/rows.h"

namespace vesta::capture {
namespace {

constexpr ClassRow kBuiltinClasses[] = {
    {"builtins",
     "object int float bool complex str bytes tuple frozenset range slice property staticmethod classmethod super type "
     "memoryview"},
    {"types",
     "NoneType EllipsisType NotImplementedType FunctionType MethodType BuiltinFunctionType WrapperDescriptorType "
     "MethodWrapperType MethodDescriptorType ClassMethodDescriptorType GetSetDescriptorType MemberDescriptorType "
     "ModuleType CellType CodeType GeneratorType MappingProxyType SimpleNamespace GenericAlias UnionType "
     "TracebackType"},
    {"typing", "Generic"},
    // From 3.12 on type variables are C's, and run functions of the module typing.
    {"typing", "TypeVar ParamSpec TypeVarTuple", until_python(11)},
    {"contextvars", "Token"},
    {"weakref", "ReferenceType"},
};

constexpr FunctionRow kBuiltinClassFunctions[] = {
    {"builtins", "int", "as_integer_ratio bit_count bit_length conjugate from_bytes to_bytes", Effect::Reads},
    {"builtins", "int", "is_integer", Effect::Reads, since_python(12)},
    {"builtins", "float", "as_integer_ratio conjugate fromhex hex is_integer __getformat__", Effect::Reads},
    {"builtins", "complex", "conjugate", Effect::Reads},
    {"builtins", "str bytes",
     "capitalize center count endswith expandtabs find index isalnum isalpha isascii isdigit islower isspace istitle "
     "isupper join ljust lower lstrip maketrans partition removeprefix removesuffix replace rfind rindex rjust "
     "rpartition rsplit rstrip split splitlines startswith strip swapcase title translate upper zfill",
     Effect::Reads},
    {"builtins", "str", "casefold encode format format_map isdecimal isidentifier isnumeric isprintable",
     Effect::Reads},
    {"builtins", "bytes", "decode fromhex hex", Effect::Reads},
    {"builtins", "tuple range", "count index", {Effect::Reads, Compares::Items}},
    {"builtins", "frozenset", "copy difference intersection isdisjoint issubset issuperset symmetric_difference union",
     Effect::Reads},
    {"builtins", "slice", "indices", Effect::Reads},
    {"builtins", "property", "deleter getter setter __set_name__", Effect::Reads},
    {"builtins", "type", "mro __prepare__ __subclasses__", Effect::Reads},
    {"builtins", "memoryview", "cast hex tobytes tolist toreadonly", Effect::Reads},
    {"builtins", "memoryview", "release __exit__", Effect::WritesSelf},
    {"builtins", "memoryview", "_from_flags", Effect::Reads, since_python(12)},
    {"builtins", "object", "__init__", Effect::Reads},
    {"types", "CodeType", "_varname_from_oparg co_lines co_positions replace", Effect::Reads},
    {"types", "GeneratorType", "close send throw", Effect::Reads},
    {"types", "MappingProxyType", "copy get items keys values", Effect::Reads},
    {"types", "GenericAlias", "__mro_entries__", Effect::Reads},
    {"contextvars", "ContextVar", "get", {Effect::Reads, handlers::get_context_variable}},
    {"contextvars", "ContextVar", "set", {Effect::WritesSelf, handlers::set_context_variable}},
    {"contextvars", "ContextVar", "reset", {Effect::WritesSelf, handlers::reset_context_variable}},
};

}  // namespace

Family builtin_classes() { return {kBuiltinClasses, kBuiltinClassFunctions}; }

}  // namespace vesta::capture
