#include "runtime/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "program/program.h"
#include "vesta/detail/convert.h"

namespace vesta::runtime {
namespace {

using program::Check;
using program::Kind;
using program::Parameter;
using program::Scalar;

Kind kind_of(const Value& v) {
  constexpr std::array kinds = {Kind::None, Kind::Bool,   Kind::Int,  Kind::Float, Kind::Complex, Kind::String,
                                Kind::Name, Kind::Tensor, Kind::List, Kind::Tuple, Kind::Dict};
  static_assert(kinds.size() == std::variant_size_v<decltype(v.value)>);
  return kinds[v.value.index()];
}

// The scalar in a value. None if it is not a scalar, so check its kind first.
Scalar scalar_of(const Value& v) {
  return std::visit(
      [](const auto& x) -> Scalar {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, Value::Name>) {
          return program::Name{x.text};
        } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, int64_t> || std::is_same_v<T, double> ||
                             std::is_same_v<T, std::complex<double>> || std::is_same_v<T, std::string>) {
          return x;
        } else {
          return std::monostate();
        }
      },
      v.value);
}

bool equals(const Value& v, const Scalar& s) { return kind_of(v) == program::kind_of(s) && same(scalar_of(v), s); }

const std::vector<Value>* items_of(const Value& v) {
  if (const auto* l = std::get_if<Value::List>(&v.value)) return &l->items;
  if (const auto* t = std::get_if<Value::Tuple>(&v.value)) return &t->items;
  return nullptr;
}

int64_t length_of(const Value& v) {
  if (const auto* d = std::get_if<Value::Dict>(&v.value)) return static_cast<int64_t>(d->items.size());
  const std::vector<Value>* items = items_of(v);
  return items ? static_cast<int64_t>(items->size()) : -1;
}

const Value* item(const Value& v, const program::Place& at) {
  if (!at.key) {
    const std::vector<Value>* items = items_of(v);
    return items && static_cast<size_t>(at.index) < items->size() ? &(*items)[static_cast<size_t>(at.index)] : nullptr;
  }
  const auto* d = std::get_if<Value::Dict>(&v.value);
  if (!d) return nullptr;
  const auto found =
      std::find_if(d->items.begin(), d->items.end(), [&](const auto& i) { return equals(i.first, *at.key); });
  return found == d->items.end() ? nullptr : &found->second;
}

bool is_same_tensor(const Value* a, const Value* b) {
  const auto* x = a ? std::get_if<at::Tensor>(&a->value) : nullptr;
  const auto* y = b ? std::get_if<at::Tensor>(&b->value) : nullptr;
  return x && y && x->is_same(*y);
}

}  // namespace

Value to_value(const Scalar& s) {
  return std::visit<Value>(program::Overloaded{[](std::monostate) { return Value{Value::None()}; },
                                               [](const program::Name& x) { return Value{Value::Name{x.text}}; },
                                               [](const auto& x) { return Value{x}; }},
                           s);
}

std::vector<Value> fallbacks_of(const program::Program& p) {
  std::vector<Value> out;
  for (const Parameter& x : p.parameters) out.push_back(x.fallback ? to_value(*x.fallback) : Value());
  return out;
}

void bind(const program::Program& p, const std::vector<Value>& fallbacks, std::vector<Value>& positional,
          Keywords& keywords, Bound& out) {
  using How = Parameter::How;
  const std::vector<Parameter>& parameters = p.parameters;
  out.values.assign(parameters.size(), nullptr);
  Value::Tuple rest;
  Value::Dict others;
  int rest_at = -1, others_at = -1;
  size_t next = 0, most = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const How how = parameters[i].how;
    if (how == How::Positionals) rest_at = static_cast<int>(i);
    if (how == How::Keywords) others_at = static_cast<int>(i);
    if (how != How::PositionalOnly && how != How::Plain) continue;
    ++most;
    if (next < positional.size()) out.values[i] = &positional[next++];
  }
  VESTA_USER_CHECK(next == positional.size() || rest_at >= 0, "{}() takes {} positional arguments but {} were given",
                   p.name, most, positional.size());
  for (; next < positional.size(); ++next) rest.items.push_back(std::move(positional[next]));
  for (auto& [name, value] : keywords) {
    const auto at = std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& x) {
      return x.name == name && (x.how == How::Plain || x.how == How::KeywordOnly);
    });
    if (at == parameters.end()) {
      VESTA_USER_CHECK(others_at >= 0, "{}() got an unexpected keyword argument '{}'; it is {}", p.name, name,
                       signature(p));
      others.items.emplace_back(Value{name}, std::move(value));
      continue;
    }
    const Value*& place = out.values[static_cast<size_t>(at - parameters.begin())];
    VESTA_USER_CHECK(!place, "{}() got multiple values for argument '{}'", p.name, name);
    place = &value;
  }
  out.rest = {std::move(rest)};
  out.keywords = {std::move(others)};
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (static_cast<int>(i) == rest_at) out.values[i] = &out.rest;
    if (static_cast<int>(i) == others_at) out.values[i] = &out.keywords;
    if (!out.values[i] && parameters[i].fallback) out.values[i] = &fallbacks[i];
  }
}

void find_places(const program::Variant& v, const Bound& arguments, std::vector<const Value*>& places) {
  places.clear();
  for (const program::Place& at : v.places) {
    const Value* parent = at.parent >= 0 ? places[static_cast<size_t>(at.parent)] : nullptr;
    places.push_back(at.parent < 0 ? arguments.values[static_cast<size_t>(at.index)]
                     : parent      ? item(*parent, at)
                                   : nullptr);
  }
}

bool holds(const Check& c, std::span<const Value* const> places) {
  const Value* x = places[static_cast<size_t>(c.place)];
  if (c.what == Check::What::Absent) return !x;
  if (!x) return false;
  switch (c.what) {
    case Check::What::Kind: return kind_of(*x) == c.kind;
    case Check::What::Equals: return equals(*x, c.value);
    case Check::What::Length: return length_of(*x) == c.number;
    case Check::What::Keys: {
      const auto* d = std::get_if<Value::Dict>(&x->value);
      return d && std::equal(d->items.begin(), d->items.end(), c.keys.begin(), c.keys.end(),
                             [](const auto& i, const Scalar& key) { return equals(i.first, key); });
    }
    case Check::What::Same: return is_same_tensor(x, places[static_cast<size_t>(c.number)]);
    case Check::What::Different: return !is_same_tensor(x, places[static_cast<size_t>(c.number)]);
    case Check::What::Present:
    case Check::What::Absent: break;
  }
  return true;
}

std::string first_difference(const program::Program& p, const program::Variant& v,
                             std::span<const Value* const> places) {
  for (const Check& c : v.checks) {
    if (holds(c, places)) continue;
    const Value* x = places[static_cast<size_t>(c.place)];
    return fmt::format("{}; here it is {}", text(p, v, c), x ? detail::describe(*x) : "not given");
  }
  return {};
}

}  // namespace vesta::runtime

namespace vesta::detail {

std::string describe(const Value& v) {
  const program::Kind kind = runtime::kind_of(v);
  switch (kind) {
    case program::Kind::Tensor: return std::string(program::name(kind));
    case program::Kind::List:
    case program::Kind::Tuple:
    case program::Kind::Dict: return fmt::format("{} of {}", program::name(kind), runtime::length_of(v));
    default: return program::to_string(runtime::scalar_of(v));
  }
}

}  // namespace vesta::detail
