#include "capture/python/saving/places.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "capture/python/saving/scalars.h"

namespace vesta::capture {

using program::Parameter;
using program::Place;

namespace {

constexpr int kUnknown = -2;
// Slots of torch.nn.Module.__call__(self, *args, **kwargs).
constexpr int kPositionalSlot = 1, kKeywordSlot = 2;

bool is_root(const Source& s, SourceKind kind, int index) { return s.kind == kind && s.index == index; }

}  // namespace

Places::Places(const Variant& v, const Calling& calling, program::Variant& out)
    : given(calling.parameters.size(), false),
      v_(v),
      calling_(calling),
      out_(out),
      known_(static_cast<size_t>(v.guards.sources().size()), kUnknown) {
  for (const Source& s : v.guards.sources().all()) {
    const bool local = s.kind == SourceKind::Local && !(calling.bound && s.index == 0);
    const auto hangs = [&](int other) { return other >= 0 && argument_[static_cast<size_t>(other)]; };
    argument_.push_back(local || hangs(s.parent) || hangs(s.other));
  }
  for (const Parameter& p : calling.parameters)
    positionals_ += p.how == Parameter::How::PositionalOnly || p.how == Parameter::How::Plain;
}

int Places::parameter(const std::string& name) const {
  const auto at = std::find_if(calling_.parameters.begin(), calling_.parameters.end(),
                               [&](const Parameter& p) { return p.name == name; });
  return at == calling_.parameters.end() ? -1 : static_cast<int>(at - calling_.parameters.begin());
}

int Places::add(Place p) {
  for (size_t i = 0; i < out_.places.size(); ++i) {
    const Place& q = out_.places[i];
    const bool same_key = p.key.has_value() == q.key.has_value() && (!p.key || same(*p.key, *q.key));
    if (p.parent == q.parent && p.index == q.index && same_key) return static_cast<int>(i);
  }
  if (p.parent < 0) given[static_cast<size_t>(p.index)] = true;
  out_.places.push_back(std::move(p));
  return static_cast<int>(out_.places.size()) - 1;
}

// An item of the tuple or dict that a module's __call__ passes to forward().
int Places::of_passed_on(const Source& s) {
  const auto starred = [&](Parameter::How how) {
    const auto at = std::find_if(calling_.parameters.begin(), calling_.parameters.end(),
                                 [&](const Parameter& p) { return p.how == how; });
    VESTA_USER_CHECK(at != calling_.parameters.end(), "forward() has no parameter for one of the call's arguments");
    return static_cast<int>(at - calling_.parameters.begin());
  };
  if (s.kind == SourceKind::SequenceItem) {
    if (s.index < positionals_) return add({-1, s.index, {}});
    return add({add({-1, starred(Parameter::How::Positionals), {}}), s.index - positionals_, {}});
  }
  const auto key = s.key ? scalar_of(s.key) : std::nullopt;
  const auto* name = key ? std::get_if<std::string>(&*key) : nullptr;
  VESTA_USER_CHECK(s.kind == SourceKind::DictValue && name,
                   "the program reads an argument in a way that cannot be saved");
  if (const int p = parameter(*name); p >= 0) return add({-1, p, {}});
  return add({add({-1, starred(Parameter::How::Keywords), {}}), 0, key});
}

int Places::of(int source) {
  int& known = known_[static_cast<size_t>(source)];
  if (known != kUnknown) return known;
  const Source& s = v_.guards.sources()[source];
  if (s.kind == SourceKind::Local) {
    const bool passed_on = calling_.passes_on && (s.index == kPositionalSlot || s.index == kKeywordSlot);
    if (passed_on) return known = -1;
    const int p = parameter(source_text(v_.guards, source));
    VESTA_USER_CHECK(p >= 0, "{} is not a parameter", source_text(v_.guards, source));
    return known = add({-1, p, {}});
  }
  VESTA_USER_CHECK(s.kind != SourceKind::Computed,
                   "the graph depends on {}, a number that is computed from arguments, which cannot be saved",
                   source_text(v_.guards, source));
  const int parent = s.parent >= 0 ? of(s.parent) : -1;
  switch (s.kind) {
    case SourceKind::InstanceDict:
      if (parent >= 0) return known = parent;
      break;
    case SourceKind::SequenceItem:
    case SourceKind::DictValue: {
      const Source& root = v_.guards.sources()[s.parent];
      if (parent < 0 &&
          (is_root(root, SourceKind::Local, kPositionalSlot) || is_root(root, SourceKind::Local, kKeywordSlot)))
        return known = of_passed_on(s);
      if (s.kind == SourceKind::SequenceItem) return known = add({parent, s.index, {}});
      if (auto key = scalar_of(s.key)) return known = add({parent, 0, std::move(key)});
      break;
    }
    case SourceKind::Member:
      if (auto key = scalar_of(s.key)) return known = add({parent, 0, std::move(key)});
      break;
    default: break;
  }
  throw UserError(fmt::format("a saved program cannot read {} from its arguments", source_text(v_.guards, source)));
}

}  // namespace vesta::capture
