// Functions of numpy on plain numbers: the handler lets them see numbers only, and takes a number only as a result.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/functions/rows.h"

namespace vesta::capture {
namespace {

constexpr FunctionRow kNumpyFunctions[] = {
    // Operators (numpy.ufunc)
    {"numpy",
     "",
     "absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_or bitwise_xor cbrt ceil "
     "conjugate copysign cos cosh deg2rad degrees divide divmod equal exp exp2 expm1 fabs float_power floor "
     "floor_divide fmax fmin fmod frexp gcd greater greater_equal heaviside hypot invert isfinite isinf isnan isnat "
     "lcm "
     "ldexp left_shift less less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or "
     "logical_xor matmul maximum minimum mod modf multiply negative nextafter not_equal positive power rad2deg radians "
     "reciprocal remainder right_shift rint sign signbit sin sinh spacing sqrt square subtract tan tanh true_divide "
     "trunc",
     {Effect::Reads, handlers::numpy_function}},
    // Functions that other libraries may take over (numpy._ArrayFunctionDispatcher)
    {"numpy",
     "",
     "all allclose amax amin angle any argmax argmin around array_equal array_equiv average can_cast clip corrcoef "
     "count_nonzero cross digitize dot einsum fix imag inner interp isclose iscomplex iscomplexobj isneginf isposinf "
     "isreal isrealobj max may_share_memory mean median min nan_to_num nanargmax nanargmin nanmax nanmean nanmedian "
     "nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar ndim percentile prod ptp quantile real round "
     "searchsorted shares_memory sinc size std sum trace trapezoid var vdot",
     {Effect::Reads, handlers::numpy_function}},
    {"numpy.linalg", "", "cond det matrix_rank norm", {Effect::Reads, handlers::numpy_function}},
};

}  // namespace

Family numpy_functions() { return {{}, kNumpyFunctions}; }

}  // namespace vesta::capture
