#include <cmath>
#include <limits>
#include <numbers>

#include "loops/scalar.h"

namespace vesta::loops {

namespace {
double polynomial(double x, const double* c, int n) {
  double r = c[0];
  for (int i = 1; i < n; ++i) r = r * x + c[i];
  return r;
}
}  // namespace

// Starts with a rational approximation (Giles' and Wichura's regions: the centre and the tails), then makes two Newton
// steps on erf.
double erfinv(double x) {
  double magnitude = std::fabs(x);
  if (!(magnitude <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  static const double a[] = {-0.140543331, 0.914624893, -1.645349621, 0.886226899};
  static const double b[] = {0.012229801, -0.329097515, 1.442710462, -2.118377725, 1};
  static const double c[] = {1.641345311, 3.429567803, -1.624906493, -1.970840454};
  static const double d[] = {1.637067800, 3.543889200, 1};
  double r;
  if (magnitude <= 0.7) {
    double z = x * x;
    r = x * polynomial(z, a, 4) / polynomial(z, b, 5);
  } else {
    double z = std::sqrt(-std::log((1 - magnitude) / 2));
    r = std::copysign(polynomial(z, c, 4) / polynomial(z, d, 3), x);
  }
  for (int step = 0; step < 2; ++step) {
    r -= (std::erf(r) - x) / (2 / std::sqrt(std::numbers::pi) * std::exp(-r * r));
  }
  return r;
}

// Uses reflection for negative arguments, the recurrence up to 10, then the asymptotic series.
double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0) {
    if (x == std::trunc(x)) return std::numeric_limits<double>::quiet_NaN();
    double whole;
    double fraction = std::modf(x, &whole);
    return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * fraction);
  }
  double r = 0;
  while (x < 10) {
    r -= 1 / x;
    x += 1;
  }
  if (x == 10) return r + 2.25175258906672110764;
  static const double a[] = {8.33333333333333333333E-2,  -2.10927960927960927961E-2, 7.57575757575757575758E-3,
                             -4.16666666666666666667E-3, 3.96825396825396825397E-3,  -8.33333333333333333333E-3,
                             8.33333333333333333333E-2};
  double y = 0;
  if (x < 1e17) {
    double z = 1 / (x * x);
    y = z * polynomial(z, a, 7);
  }
  return r + std::log(x) - 0.5 / x - y;
}

}  // namespace vesta::loops
