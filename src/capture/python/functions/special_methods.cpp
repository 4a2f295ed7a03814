// Special methods. Python's data model says what each one does, in every class of C that a trace knows.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/functions/rows.h"

namespace vesta::capture {
namespace {

constexpr FunctionRow kSpecialMethods[] = {
    {"", "", "__getattribute__", {Effect::Reads, handlers::object_get_attribute}},
    {"", "", "__setattr__", {Effect::WritesSelf, handlers::object_set_attribute}},
    {"", "", "__delattr__", {Effect::WritesSelf, handlers::object_delete_attribute}},
    {"", "", "__iter__", {Effect::Reads, handlers::iterate}},
    {"", "", "__next__", {Effect::WritesSelf, handlers::advance}},
    {"", "", "__len__", Callable(Effect::Reads, handlers::length).and_passable()},
    // Operators of numbers, sequences and sets; comparisons.
    {"",
     "",
     "__abs__ __add__ __and__ __bool__ __ceil__ __complex__ __contains__ __divmod__ __eq__ __float__ __floor__ "
     "__floordiv__ __ge__ __getitem__ __gt__ __hash__ __index__ __int__ __invert__ __le__ __lshift__ __lt__ __mod__ "
     "__mul__ __ne__ __neg__ __or__ __pos__ __pow__ __radd__ __rand__ __rdivmod__ __rfloordiv__ __rlshift__ __rmod__ "
     "__rmul__ __ror__ __round__ __rpow__ __rrshift__ __rshift__ __rsub__ __rtruediv__ __rxor__ __sub__ __truediv__ "
     "__trunc__ __xor__",
     {Effect::Reads, Compares::Items}},
    // Texts, bytes, copies and other forms of an object.
    {"",
     "",
     "__bytes__ __copy__ __deepcopy__ __format__ __getnewargs__ __length_hint__ __repr__ __reversed__ __sizeof__ "
     "__str__",
     {Effect::Reads, Compares::Items}},
    {"", "", "__replace__", {Effect::Reads, Compares::Items}, since_python(13)},
    // Of classes, functions, descriptors and context managers.
    {"",
     "",
     "__call__ __class_getitem__ __delete__ __enter__ __exit__ __get__ __init_subclass__ __instancecheck__ __set__ "
     "__subclasscheck__ __subclasshook__",
     {Effect::Reads, Compares::Items}},
    {"", "", "__dir__ __getstate__ __reduce__ __reduce_ex__", Effect::ReadsState},
    {"",
     "",
     "__delitem__ __iadd__ __iand__ __imul__ __init__ __ior__ __isub__ __ixor__ __setitem__ __setstate__",
     {Effect::WritesSelf, Compares::Items}},
    {"", "", "__del__", refused("ends a generator")},
    {"", "", "__buffer__ __release_buffer__", refused("gives access to an object's memory"), since_python(12)},
};

}  // namespace

std::span<const FunctionRow> special_methods() { return kSpecialMethods; }

}  // namespace vesta::capture
