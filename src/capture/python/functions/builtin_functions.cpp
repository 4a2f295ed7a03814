// Functions of the module builtins.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/functions/rows.h"

namespace vesta::capture {
namespace {

constexpr FunctionRow kBuiltinFunctions[] = {
    {"builtins", "", "all any ascii bin callable chr format hex issubclass oct ord repr sorted", Effect::Reads},
    {"builtins", "", "divmod pow sum", Effect::ReadsNumbers},
    {"builtins", "", "max", Callable(Effect::ReadsNumbers, handlers::larger).and_passable()},
    {"builtins", "", "min", Callable(Effect::ReadsNumbers, handlers::smaller).and_passable()},
    {"builtins", "", "abs", Callable(Effect::ReadsNumbers).on_numbers()},
    {"builtins", "", "round", Callable(Effect::Reads).on_numbers()},
    {"builtins", "", "getattr", {Effect::Reads, handlers::get_attribute}},
    {"builtins", "", "hasattr", {Effect::Reads, handlers::has_attribute}},
    {"builtins", "", "setattr", {Effect::WritesSelf, handlers::set_attribute}},
    {"builtins", "", "delattr", {Effect::WritesSelf, handlers::delete_attribute}},
    {"builtins", "", "isinstance", {Effect::Reads, handlers::is_instance}},
    {"builtins", "", "iter", {Effect::Reads, handlers::iterate}},
    {"builtins", "", "next", {Effect::Reads, handlers::advance}},
    // The items of a container are guarded together with it.
    {"builtins", "", "len", Callable(Effect::Reads, handlers::length).and_passable()},
    {"builtins", "", "vars dir", {Effect::Reads, handlers::vars}},
    {"builtins", "", "id", {Effect::Reads, handlers::address}},
    {"builtins", "", "hash", {Effect::Reads, handlers::hash}},
    {"builtins", "", "__build_class__", {Effect::Reads, handlers::build_class}},
};

}  // namespace

Family builtin_functions() { return {{}, kBuiltinFunctions}; }

}  // namespace vesta::capture
