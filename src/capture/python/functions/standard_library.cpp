// C functions of Python's standard library.
#include "capture/python/functions/rows.h"

namespace vesta::capture {
namespace {

constexpr ClassRow kStandardLibraryClasses[] = {
    {"functools", "partial"},
    {"operator", "itemgetter attrgetter methodcaller"},
    {"re", "Pattern Match"},
};

constexpr Callable kOfNumbers = Callable(Effect::Reads).on_numbers();

constexpr FunctionRow kStandardLibraryFunctions[] = {
    {"math", "",
     "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist erf erfc exp exp2 expm1 "
     "fabs "
     "factorial floor fmod frexp fsum gamma gcd hypot isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10 "
     "log1p log2 modf nextafter perm pow prod radians remainder sin sinh sqrt tan tanh trunc ulp",
     kOfNumbers},
    {"math", "", "sumprod", kOfNumbers, since_python(12)},
    {"math", "", "fma", kOfNumbers, since_python(13)},
    {"cmath", "",
     "acos acosh asin asinh atan atanh cos cosh exp isclose isfinite isinf isnan log log10 phase polar rect sin sinh "
     "sqrt tan tanh",
     Effect::Reads},
    {"_operator",
     "",
     "abs add and_ call concat contains countOf eq floordiv ge getitem gt index indexOf inv invert is_ is_not le "
     "length_hint lshift lt matmul mod mul ne neg not_ or_ pos pow rshift sub truediv truth xor",
     {Effect::ReadsNumbers, Compares::Arguments}},
    {"_operator",
     "",
     "delitem iadd iand iconcat ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor setitem",
     {Effect::WritesSelf, Compares::Arguments}},
    {"_functools", "", "cmp_to_key reduce", Effect::Reads},
    {"_abc", "", "_abc_instancecheck _abc_subclasscheck _get_dump get_cache_token", Effect::Reads},
    {"_collections", "", "_count_elements", Effect::WritesSelf},
    {"_bisect", "", "bisect_left bisect_right", Effect::Reads},
    {"_heapq", "", "heapify heappop heappush heappushpop heapreplace", Effect::WritesSelf},
    {"_typing", "", "_idfunc", Effect::Reads},
    {"sys", "", "getdefaultencoding getrecursionlimit intern", Effect::Reads},
    {"_struct", "", "calcsize", Effect::Reads},
    {"re", "Pattern", "findall finditer fullmatch match scanner search split sub subn", Effect::Reads},
    {"re", "Match", "end expand group groupdict groups span start", Effect::Reads},
};

}  // namespace

Family standard_library() { return {kStandardLibraryClasses, kStandardLibraryFunctions}; }

}  // namespace vesta::capture
