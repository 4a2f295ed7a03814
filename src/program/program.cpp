#include "program/program.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>

namespace vesta::program {
namespace {

bool same_real(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

}  // namespace

bool same(const Scalar& a, const Scalar& b) {
  if (a.index() != b.index()) return false;
  if (const double* x = std::get_if<double>(&a)) return same_real(*x, std::get<double>(b));
  if (const auto* x = std::get_if<std::complex<double>>(&a)) {
    const auto& y = std::get<std::complex<double>>(b);
    return same_real(x->real(), y.real()) && same_real(x->imag(), y.imag());
  }
  return a == b;
}

std::string to_string(const Scalar& s) {
  return std::visit<std::string>(
      Overloaded{
          [](std::monostate) { return "None"; },
          [](bool v) { return v ? "True" : "False"; },
          [](int64_t v) { return std::to_string(v); },
          [](double v) {
            std::string text = fmt::format("{}", v);
            return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
          },
          [](const std::complex<double>& v) { return fmt::format("({}{:+}j)", v.real(), v.imag()); },
          [](const std::string& v) { return fmt::format("'{}'", v); },
          [](const Name& v) { return v.text; },
      },
      s);
}

Kind kind_of(const Scalar& s) {
  constexpr std::array kinds = {Kind::None,    Kind::Bool,   Kind::Int, Kind::Float,
                                Kind::Complex, Kind::String, Kind::Name};
  static_assert(kinds.size() == std::variant_size_v<Scalar>);
  return kinds[s.index()];
}

std::string_view name(Kind k) {
  switch (k) {
    case Kind::None: return "None";
    case Kind::Bool: return "a bool";
    case Kind::Int: return "an int";
    case Kind::Float: return "a float";
    case Kind::Complex: return "a complex number";
    case Kind::String: return "a string";
    case Kind::Name: return "a dtype, device or layout";
    case Kind::Tensor: return "a tensor";
    case Kind::List: return "a list";
    case Kind::Tuple: return "a tuple";
    case Kind::Dict: return "a dict";
  }
  return "";
}

int64_t reach(const Weight& w) {
  int64_t last = 0;
  for (size_t d = 0; d < w.sizes.size(); ++d) {
    if (w.sizes[d] == 0) return 0;
    last += (w.sizes[d] - 1) * w.strides[d];
  }
  return (w.offset + last + 1) * element_size(w.dtype);
}

}  // namespace vesta::program
