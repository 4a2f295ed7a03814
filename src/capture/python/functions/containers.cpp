// Lists, dicts, sets, deques and byte arrays: containers that a program writes.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/functions/rows.h"

namespace vesta::capture {
namespace {

constexpr ClassRow kContainerClasses[] = {
    {"builtins", "list dict set bytearray"},
    {"collections", "deque OrderedDict defaultdict"},
};

constexpr FunctionRow kContainerFunctions[] = {
    {"builtins", "list", "append", Effect::Appends},
    {"builtins", "list", "extend", Effect::Extends},
    {"builtins", "list", "clear insert pop reverse sort", Effect::WritesSelf},
    {"builtins", "list", "remove", {Effect::WritesSelf, Compares::Items}},
    {"builtins", "list", "copy", Effect::Reads},
    {"builtins", "list", "count index", {Effect::Reads, Compares::Items}},

    {"builtins", "dict", "get", {Effect::Reads, handlers::dict_get}},
    {"builtins", "dict", "pop", {Effect::WritesSelf, handlers::dict_pop}},
    {"builtins", "dict", "setdefault", {Effect::WritesSelf, handlers::dict_set_default}},
    {"builtins", "dict", "update", Callable(Effect::WritesSelf, handlers::dict_update).comparing(Compares::Arguments)},
    {"builtins", "dict", "clear popitem", Effect::WritesSelf},
    {"builtins", "dict", "copy items keys values", Effect::Reads},
    {"builtins", "dict", "fromkeys", {Effect::Reads, Compares::Arguments}},

    {"collections", "OrderedDict", "clear move_to_end pop popitem setdefault", Effect::WritesSelf},
    {"collections", "OrderedDict", "update", {Effect::WritesSelf, Compares::Arguments}},
    {"collections", "OrderedDict", "copy items keys values", Effect::Reads},
    {"collections", "OrderedDict", "fromkeys", {Effect::Reads, Compares::Arguments}},
    {"collections", "defaultdict", "copy", Effect::Reads},
    {"collections", "defaultdict", "__missing__", Effect::WritesSelf},

    {"builtins", "set",
     "add clear difference_update discard intersection_update pop remove symmetric_difference_update update",
     Effect::WritesSelf},
    {"builtins", "set", "copy difference intersection isdisjoint issubset issuperset symmetric_difference union",
     Effect::Reads},

    {"collections", "deque", "append appendleft clear extend extendleft insert pop popleft reverse rotate",
     Effect::WritesSelf},
    {"collections", "deque", "remove", {Effect::WritesSelf, Compares::Items}},
    {"collections", "deque", "copy", Effect::Reads},
    {"collections", "deque", "count index", {Effect::Reads, Compares::Items}},

    {"builtins", "bytearray", "append clear extend insert pop remove reverse", Effect::WritesSelf},
    {"builtins", "bytearray",
     "capitalize center copy count decode endswith expandtabs find fromhex hex index isalnum isalpha isascii isdigit "
     "islower isspace istitle isupper join ljust lower lstrip maketrans partition removeprefix removesuffix replace "
     "rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title translate upper "
     "zfill __alloc__",
     Effect::Reads},
};

}  // namespace

Family containers() { return {kContainerClasses, kContainerFunctions}; }

}  // namespace vesta::capture
