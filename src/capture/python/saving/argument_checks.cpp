#include "capture/python/saving/argument_checks.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "capture/python/saving/scalars.h"

namespace vesta::capture {
namespace {

using program::Kind;
using program::Parameter;
using program::Scalar;
using What = program::Check::What;

bool is_pair(const Guard& g) { return g.check == Check::Same || g.check == Check::Different; }

}  // namespace

bool ArgumentChecks::concern(const Guard& g) const {
  return (g.source >= 0 && parts_.places.is_argument(g.source)) ||
         (is_pair(g) && parts_.places.is_argument(static_cast<int>(g.number)));
}

void ArgumentChecks::check(What what, int place, Kind kind, Scalar value, int64_t number) {
  parts_.out.checks.push_back({what, place, kind, std::move(value), number, {}});
}

void ArgumentChecks::add(const Guard& g) {
  const int other = static_cast<int>(g.number);
  if (is_pair(g) && !(parts_.places.is_argument(g.source) && parts_.places.is_argument(other))) {
    // No argument of another process is an object of this one.
    VESTA_USER_CHECK(g.check == Check::Different,
                     "an argument is an object that the program refers to by identity, which cannot be saved");
    return;
  }
  // A saved program records no gradients, and reads no attributes of tensors.
  if (g.check == Check::Tensor || g.check == Check::Bare) return;
  const Source& s = parts_.variant.guards.sources()[g.source];
  if (s.kind == SourceKind::DictKey && g.check != Check::Absent) return;  // the guard of the dict's keys says it
  const int place = parts_.places.of(g.source);
  if (place < 0) return add_passed_on(g);
  switch (g.check) {
    case Check::Type: {
      const auto kind = kind_of_class(g.expected);
      VESTA_USER_CHECK(kind, "a saved program cannot check the class of an argument");
      return check(What::Kind, place, *kind);
    }
    case Check::Is:
    case Check::Equals: {
      auto value = scalar_of(g.expected);
      VESTA_USER_CHECK(value, "the program compares an argument with an object that cannot be saved");
      return check(What::Equals, place, Kind::None, std::move(*value));
    }
    case Check::Present: return check(What::Present, place);
    case Check::Absent: return check(What::Absent, place);
    case Check::Length: return check(What::Length, place, Kind::None, {}, g.number);
    case Check::Keys: {
      program::Check c{What::Keys, place, Kind::None, {}, 0, {}};
      for (PyObject* key : parts_.variant.guards.keys(g)) {
        auto scalar = scalar_of(key);
        VESTA_USER_CHECK(scalar, "a dict has keys that cannot be saved");
        c.keys.push_back(std::move(*scalar));
      }
      parts_.out.checks.push_back(std::move(c));
      return;
    }
    case Check::Same:
    case Check::Different:
      return check(g.check == Check::Same ? What::Same : What::Different, place, Kind::None, {},
                   parts_.places.of(other));
    default: throw UserError("the program reads a property of an argument that a saved program cannot check");
  }
}

// A guard on the tuple or dict that a module's __call__ passes on: it says which parameters are given.
void ArgumentChecks::add_passed_on(const Guard& g) {
  const int positional = parts_.places.positionals();
  if (g.check == Check::Length && parts_.variant.guards.sources()[g.source].index == 1) {
    const auto count = static_cast<int>(g.number);
    for (int i = 0; i < std::min(count, positional); ++i) parts_.places.add({-1, i, {}});
    for (size_t i = 0; i < parts_.calling.parameters.size(); ++i)
      if (parts_.calling.parameters[i].how == Parameter::How::Positionals)
        check(What::Length, parts_.places.add({-1, static_cast<int>(i), {}}), Kind::None, {},
              std::max(0, count - positional));
  }
  if (g.check != Check::Keys) return;
  program::Check rest{What::Keys, -1, Kind::None, {}, 0, {}};
  for (PyObject* key : parts_.variant.guards.keys(g)) {
    const auto name = scalar_of(key);
    const auto at = std::find_if(
        parts_.calling.parameters.begin(), parts_.calling.parameters.end(),
        [&](const Parameter& p) { return name && same(*name, Scalar(p.name)) && p.how != Parameter::How::Keywords; });
    if (at != parts_.calling.parameters.end()) {
      parts_.places.add({-1, static_cast<int>(at - parts_.calling.parameters.begin()), {}});
    } else if (name) {
      rest.keys.push_back(*name);
    }
  }
  for (size_t i = 0; i < parts_.calling.parameters.size(); ++i) {
    if (parts_.calling.parameters[i].how != Parameter::How::Keywords) continue;
    rest.place = parts_.places.add({-1, static_cast<int>(i), {}});
    parts_.out.checks.push_back(rest);
  }
}

void ArgumentChecks::add_not_given() {
  if (!parts_.calling.passes_on) return;
  const std::vector<bool> given = parts_.places.given;
  for (size_t i = 0; i < given.size(); ++i) {
    const Parameter& p = parts_.calling.parameters[i];
    if (given[i] || p.how == Parameter::How::Positionals || p.how == Parameter::How::Keywords) continue;
    const int place = parts_.places.add({-1, static_cast<int>(i), {}});
    if (p.fallback)
      check(What::Equals, place, Kind::None, *p.fallback);
    else
      check(What::Absent, place);
  }
}

}  // namespace vesta::capture
