// C++ values to the values of a saved program's calls, and back. A conversion never changes a value: another kind of
// value is a UserError. Not a public interface.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "vesta/detail/value.h"
#include "vesta/error.h"

namespace vesta::detail {

VESTA_API std::string describe(const Value& v);  // "a tuple of 2"

[[noreturn]] inline void other_result(const char* wanted, const Value& found) {
  throw UserError(std::string("the result is ") + describe(found) + ", not " + wanted);
}

// Convert<T>: to(x) makes a Value, from(value) reads it. from() throws UserError for a value of another kind.
template <class T, class = void>
struct Convert {
  static_assert(
      sizeof(T) == 0,
      "vesta::load: arguments and results are at::Tensor, std::optional, std::vector, std::array, std::tuple, "
      "std::pair, std::map<std::string, ...> of these, numbers, bools and strings");
};

template <class T>
Value to_value(const T& x) {
  return Convert<T>::to(x);
}
template <class T>
T from_value(Value&& v) {
  if constexpr (!std::is_void_v<T>) return Convert<T>::from(std::move(v));
}

template <>
struct Convert<Value> {
  static Value to(const Value& x) { return x; }
  static Value from(Value&& v) { return std::move(v); }
};

template <>
struct Convert<at::Tensor> {
  static Value to(const at::Tensor& x) { return x.defined() ? Value{x} : Value{Value::None()}; }
  static at::Tensor from(Value&& v) {
    if (std::holds_alternative<Value::None>(v.value)) return {};
    auto* t = std::get_if<at::Tensor>(&v.value);
    return t ? std::move(*t) : (other_result("a tensor", v), at::Tensor());
  }
};

template <class T>
struct Convert<T, std::enable_if_t<std::is_arithmetic_v<T>>> {
  static Value to(T x) {
    if constexpr (std::is_same_v<T, bool>) {
      return {x};
    } else if constexpr (std::is_floating_point_v<T>) {
      return {static_cast<double>(x)};
    } else {
      return {static_cast<int64_t>(x)};
    }
  }
  static T from(Value&& v) {
    if (const auto* b = std::get_if<bool>(&v.value)) return static_cast<T>(*b);
    if constexpr (!std::is_same_v<T, bool>) {
      if (const auto* i = std::get_if<int64_t>(&v.value)) return static_cast<T>(*i);
      if constexpr (std::is_floating_point_v<T>)
        if (const auto* d = std::get_if<double>(&v.value)) return static_cast<T>(*d);
    }
    other_result(std::is_same_v<T, bool> ? "a bool" : std::is_floating_point_v<T> ? "a number" : "an integer", v);
  }
};

template <>
struct Convert<std::string> {
  static Value to(std::string_view x) { return {std::string(x)}; }
  static std::string from(Value&& v) {
    auto* s = std::get_if<std::string>(&v.value);
    return s ? std::move(*s) : (other_result("a string", v), std::string());
  }
};
template <>
struct Convert<std::string_view> : Convert<std::string> {};
template <>
struct Convert<const char*> : Convert<std::string> {};

template <class T>
struct Convert<std::optional<T>> {
  static Value to(const std::optional<T>& x) { return x ? to_value(*x) : Value{Value::None()}; }
  static std::optional<T> from(Value&& v) {
    if (std::holds_alternative<Value::None>(v.value)) return std::nullopt;
    return from_value<T>(std::move(v));
  }
};

// The items of a list or tuple. `wanted` names the expected type in the error.
inline std::vector<Value>& items_of(Value& v, const char* wanted) {
  if (auto* l = std::get_if<Value::List>(&v.value)) return l->items;
  if (auto* t = std::get_if<Value::Tuple>(&v.value)) return t->items;
  other_result(wanted, v);
}

template <class T>
struct Convert<std::vector<T>> {
  static Value to(const std::vector<T>& x) {
    Value::List out;
    for (const auto& e : x) out.items.push_back(to_value<T>(e));
    return {std::move(out)};
  }
  static std::vector<T> from(Value&& v) {
    std::vector<T> out;
    for (Value& e : items_of(v, "a list")) out.push_back(from_value<T>(std::move(e)));
    return out;
  }
};

template <class T, size_t N>
struct Convert<std::array<T, N>> {
  static Value to(const std::array<T, N>& x) {
    Value::List out;
    for (const T& e : x) out.items.push_back(to_value(e));
    return {std::move(out)};
  }
  static std::array<T, N> from(Value&& v) {
    std::vector<Value>& items = items_of(v, "a list");
    if (items.size() != N) other_result(("a list of " + std::to_string(N)).c_str(), v);
    std::array<T, N> out;
    for (size_t i = 0; i < N; ++i) out[i] = from_value<T>(std::move(items[i]));
    return out;
  }
};

template <class T, class... E>
struct ConvertTuple {
  static Value to(const T& x) {
    Value::Tuple out;
    std::apply([&](const E&... e) { (out.items.push_back(to_value(e)), ...); }, x);
    return {std::move(out)};
  }
  static T from(Value&& v) {
    std::vector<Value>& items = items_of(v, "a tuple");
    if (items.size() != sizeof...(E)) other_result(("a tuple of " + std::to_string(sizeof...(E))).c_str(), v);
    size_t i = 0;
    return T{from_value<E>(std::move(items[i++]))...};
  }
};
template <class... E>
struct Convert<std::tuple<E...>> : ConvertTuple<std::tuple<E...>, E...> {};
template <class A, class B>
struct Convert<std::pair<A, B>> : ConvertTuple<std::pair<A, B>, A, B> {};

template <class T>
struct Convert<std::map<std::string, T>> {
  static Value to(const std::map<std::string, T>& x) {
    Value::Dict out;
    for (const auto& [key, e] : x) out.items.emplace_back(Value{key}, to_value(e));
    return {std::move(out)};
  }
  static std::map<std::string, T> from(Value&& v) {
    auto* d = std::get_if<Value::Dict>(&v.value);
    if (!d) other_result("a dict", v);
    std::map<std::string, T> out;
    for (auto& [key, e] : d->items) out.emplace(from_value<std::string>(std::move(key)), from_value<T>(std::move(e)));
    return out;
  }
};

}  // namespace vesta::detail
