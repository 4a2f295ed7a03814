// Flattens the arguments and results of a C++ callable to tensors, integers and constants, and rebuilds them. Types
// outside the supported list fail to compile. Not a public interface.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/SymInt.h>

#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "vesta/detail/function.h"

namespace vesta::detail {

// The leaves of a trace, read in the order in which flatten() wrote them.
struct LeafReader {
  const std::vector<c10::IValue>& leaves;
  size_t next_tensor = 0;
  size_t next_integer = 0;  // integers follow the tensors in `leaves`
  at::Tensor tensor() { return leaves[next_tensor++].toTensor(); }
  c10::SymInt integer() { return leaves[next_integer++].toSymInt(); }
};

struct ResultWriter {
  std::vector<c10::IValue>& values;
  std::vector<c10::IValue>& constants;
};

struct ResultReader {
  std::vector<c10::IValue>& values;
  const std::vector<c10::IValue>* constants;
  size_t next_value = 0;
  size_t next_constant = 0;
  c10::IValue& value() { return values[next_value++]; }
  const c10::IValue& constant() { return (*constants)[next_constant++]; }
};

// Flat<T>:  flatten(x, call)       appends the leaves and the key of an argument
//           rebuild(x, reader)     the argument with its leaves replaced, as a Flat<T>::Stored
//           write(x, writer), read(reader)   the same for results
template <class T, class = void>
struct Flat {
  static_assert(sizeof(T) == 0,
                "vesta::compile: arguments and results are at::Tensor, std::optional, std::vector, std::array, "
                "std::tuple, std::pair, std::map<std::string, ...> of these, c10::SymInt, numbers, bools, enums and "
                "strings");
};

template <>
struct Flat<at::Tensor> {
  using Stored = at::Tensor;
  static void flatten(const at::Tensor& x, Call& call) {
    if (!x.defined()) {
      call.tag('u');
      return;
    }
    call.tag('t');
    call.tensors.push_back(x);
  }
  static at::Tensor rebuild(const at::Tensor& x, LeafReader& r) { return x.defined() ? r.tensor() : x; }
  static void write(const at::Tensor& x, ResultWriter& w) {
    w.values.emplace_back(x.defined() ? c10::IValue(x) : c10::IValue());
  }
  static at::Tensor read(ResultReader& r) {
    c10::IValue& v = r.value();
    return v.isNone() ? at::Tensor() : std::move(v).toTensor();
  }
};

template <>
struct Flat<c10::SymInt> {
  using Stored = c10::SymInt;
  static void flatten(const c10::SymInt& x, Call& call) {
    call.tag('s');
    call.integers.push_back(x.expect_int());
  }
  static c10::SymInt rebuild(const c10::SymInt&, LeafReader& r) { return r.integer(); }
  static void write(const c10::SymInt& x, ResultWriter& w) { w.values.emplace_back(x); }
  static c10::SymInt read(ResultReader& r) { return c10::SymInt(r.value().toInt()); }
};

// Numbers, bools and enums are constants of a variant. Two are equal if their bytes are.
template <class T>
struct Flat<T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>>> {
  using Stored = T;
  static void flatten(const T& x, Call& call) {
    call.tag(std::is_floating_point_v<T> ? 'f' : std::is_same_v<T, bool> ? 'b' : 'i');
    call.bytes(&x, sizeof(T));
  }
  static T rebuild(const T& x, LeafReader&) { return x; }
  static void write(const T& x, ResultWriter& w) {
    if constexpr (std::is_floating_point_v<T>) {
      w.constants.emplace_back(static_cast<double>(x));
    } else if constexpr (std::is_same_v<T, bool>) {
      w.constants.emplace_back(x);
    } else {
      w.constants.emplace_back(static_cast<int64_t>(x));
    }
  }
  static T read(ResultReader& r) {
    const c10::IValue& v = r.constant();
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(v.toDouble());
    } else if constexpr (std::is_same_v<T, bool>) {
      return v.toBool();
    } else {
      return static_cast<T>(v.toInt());
    }
  }
};

template <>
struct Flat<at::Scalar> {
  using Stored = at::Scalar;
  static void flatten(const at::Scalar& x, Call& call) {
    const auto type = x.type();
    call.tag('n');
    call.bytes(&type, sizeof(type));
    if (x.isComplex()) {
      const auto v = x.toComplexDouble();
      call.bytes(&v, sizeof(v));
    } else if (x.isFloatingPoint()) {
      const double v = x.toDouble();
      call.bytes(&v, sizeof(v));
    } else {
      const int64_t v = x.toLong();
      call.bytes(&v, sizeof(v));
    }
  }
  static at::Scalar rebuild(const at::Scalar& x, LeafReader&) { return x; }
  static void write(const at::Scalar& x, ResultWriter& w) { w.constants.emplace_back(x); }
  static at::Scalar read(ResultReader& r) { return r.constant().toScalar(); }
};

template <>
struct Flat<std::string> {
  using Stored = std::string;
  static void flatten(std::string_view x, Call& call) {
    const size_t n = x.size();
    call.tag('q');
    call.bytes(&n, sizeof(n));
    call.bytes(x.data(), n);
  }
  static std::string rebuild(std::string_view x, LeafReader&) { return std::string(x); }
  static void write(const std::string& x, ResultWriter& w) { w.constants.emplace_back(x); }
  static std::string read(ResultReader& r) { return r.constant().toStringRef(); }
};
template <>
struct Flat<std::string_view> : Flat<std::string> {};
template <>
struct Flat<const char*> : Flat<std::string> {};
template <size_t N>
struct Flat<char[N]> : Flat<std::string> {};

template <>
struct Flat<std::nullopt_t> {
  using Stored = std::nullopt_t;
  static void flatten(const std::nullopt_t&, Call& call) { call.tag('0'); }
  static std::nullopt_t rebuild(const std::nullopt_t&, LeafReader&) { return std::nullopt; }
};

template <>
struct Flat<c10::Device> {
  using Stored = c10::Device;
  static void flatten(const c10::Device& x, Call& call) {
    const int8_t data[2] = {static_cast<int8_t>(x.type()), x.index()};
    call.tag('d');
    call.bytes(data, sizeof(data));
  }
  static c10::Device rebuild(const c10::Device& x, LeafReader&) { return x; }
  static void write(const c10::Device& x, ResultWriter& w) { w.constants.emplace_back(x); }
  static c10::Device read(ResultReader& r) { return r.constant().toDevice(); }
};

template <class T>
struct Flat<std::optional<T>> {
  using Stored = std::optional<typename Flat<T>::Stored>;
  static void flatten(const std::optional<T>& x, Call& call) {
    call.tag(x ? '1' : '0');
    if (x) Flat<T>::flatten(*x, call);
  }
  static Stored rebuild(const std::optional<T>& x, LeafReader& r) {
    if (!x) return std::nullopt;
    return Flat<T>::rebuild(*x, r);
  }
  static void write(const std::optional<T>& x, ResultWriter& w) {
    w.constants.emplace_back(x.has_value());
    if (x) Flat<T>::write(*x, w);
  }
  static std::optional<T> read(ResultReader& r) {
    if (!r.constant().toBool()) return std::nullopt;
    return Flat<T>::read(r);
  }
};

template <class List, class T>
struct FlatSequence {
  using Stored = std::vector<typename Flat<T>::Stored>;
  static void flatten(const List& x, Call& call) {
    const size_t n = x.size();
    call.tag('v');
    call.bytes(&n, sizeof(n));
    for (const auto& e : x) Flat<T>::flatten(e, call);
  }
  static Stored rebuild(const List& x, LeafReader& r) {
    Stored out;
    out.reserve(x.size());
    for (const auto& e : x) out.push_back(Flat<T>::rebuild(e, r));
    return out;
  }
};

template <class T>
struct Flat<std::vector<T>> : FlatSequence<std::vector<T>, T> {
  static void write(const std::vector<T>& x, ResultWriter& w) {
    w.constants.emplace_back(static_cast<int64_t>(x.size()));
    for (const auto& e : x) Flat<T>::write(e, w);
  }
  static std::vector<T> read(ResultReader& r) {
    std::vector<T> out(static_cast<size_t>(r.constant().toInt()));
    for (auto&& e : out) e = Flat<T>::read(r);
    return out;
  }
};
template <class T>
struct Flat<c10::ArrayRef<T>> : FlatSequence<c10::ArrayRef<T>, T> {};

template <class T, size_t N>
struct Flat<std::array<T, N>> {
  using Stored = std::array<typename Flat<T>::Stored, N>;
  static void flatten(const std::array<T, N>& x, Call& call) {
    call.tag('a');
    for (const T& e : x) Flat<T>::flatten(e, call);
  }
  static Stored rebuild(const std::array<T, N>& x, LeafReader& r) {
    Stored out{};
    for (size_t i = 0; i < N; ++i) out[i] = Flat<T>::rebuild(x[i], r);
    return out;
  }
  static void write(const std::array<T, N>& x, ResultWriter& w) {
    for (const T& e : x) Flat<T>::write(e, w);
  }
  static std::array<T, N> read(ResultReader& r) {
    std::array<T, N> out{};
    for (T& e : out) e = Flat<T>::read(r);
    return out;
  }
};

template <class... T>
struct Flat<std::tuple<T...>> {
  using Stored = std::tuple<typename Flat<T>::Stored...>;
  static void flatten(const std::tuple<T...>& x, Call& call) {
    call.tag('(');
    std::apply([&](const T&... e) { (Flat<T>::flatten(e, call), ...); }, x);
    call.tag(')');
  }
  static Stored rebuild(const std::tuple<T...>& x, LeafReader& r) {
    return std::apply([&](const T&... e) { return Stored{Flat<T>::rebuild(e, r)...}; }, x);
  }
  static void write(const std::tuple<T...>& x, ResultWriter& w) {
    std::apply([&](const T&... e) { (Flat<T>::write(e, w), ...); }, x);
  }
  static std::tuple<T...> read(ResultReader& r) { return std::tuple<T...>{Flat<T>::read(r)...}; }
};

template <class A, class B>
struct Flat<std::pair<A, B>> {
  using Stored = std::pair<typename Flat<A>::Stored, typename Flat<B>::Stored>;
  static void flatten(const std::pair<A, B>& x, Call& call) {
    call.tag('<');
    Flat<A>::flatten(x.first, call);
    Flat<B>::flatten(x.second, call);
  }
  static Stored rebuild(const std::pair<A, B>& x, LeafReader& r) {
    auto first = Flat<A>::rebuild(x.first, r);
    return {std::move(first), Flat<B>::rebuild(x.second, r)};
  }
  static void write(const std::pair<A, B>& x, ResultWriter& w) {
    Flat<A>::write(x.first, w);
    Flat<B>::write(x.second, w);
  }
  static std::pair<A, B> read(ResultReader& r) {
    A first = Flat<A>::read(r);
    return {std::move(first), Flat<B>::read(r)};
  }
};

template <class T>
struct Flat<std::map<std::string, T>> {
  using Stored = std::map<std::string, typename Flat<T>::Stored>;
  static void flatten(const std::map<std::string, T>& x, Call& call) {
    const size_t n = x.size();
    call.tag('m');
    call.bytes(&n, sizeof(n));
    for (const auto& [key, value] : x) {
      Flat<std::string>::flatten(key, call);
      Flat<T>::flatten(value, call);
    }
  }
  static Stored rebuild(const std::map<std::string, T>& x, LeafReader& r) {
    Stored out;
    for (const auto& [key, value] : x) out.emplace(key, Flat<T>::rebuild(value, r));
    return out;
  }
  static void write(const std::map<std::string, T>& x, ResultWriter& w) {
    w.constants.emplace_back(static_cast<int64_t>(x.size()));
    for (const auto& [key, value] : x) {
      w.constants.emplace_back(key);
      Flat<T>::write(value, w);
    }
  }
  static std::map<std::string, T> read(ResultReader& r) {
    std::map<std::string, T> out;
    for (int64_t n = r.constant().toInt(); n > 0; --n) {
      std::string key = r.constant().toStringRef();
      out.emplace(std::move(key), Flat<T>::read(r));
    }
    return out;
  }
};

}  // namespace vesta::detail
