#include "program/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "artifact/uses.h"
#include "base/byte_text.h"

namespace vesta::program {
namespace {

std::string size_text(const artifact::Size& s) {
  if (s.is_constant()) return std::to_string(s.steps.at(0).value);
  if (s.steps.size() == 1) return fmt::format("s{}", s.steps[0].value);
  return "?";
}

std::string tensor_text(const artifact::TensorDesc& t) {
  std::vector<std::string> sizes;
  for (const artifact::Size& s : t.sizes) sizes.push_back(size_text(s));
  return fmt::format("{}[{}]{}", name(t.dtype), fmt::join(sizes, ", "),
                     t.device.type == DeviceType::CPU ? "" : "@" + to_string(t.device));
}

std::string result_text(const Variant& v, int number) {
  const Make& m = v.makes.at(static_cast<size_t>(number));
  std::vector<std::string> parts;
  for (const int part : m.parts) parts.push_back(result_text(v, part));
  switch (m.what) {
    case Make::What::Constant: return to_string(m.value);
    case Make::What::Argument: return "an argument";
    case Make::What::Weight: return "a weight";
    case Make::What::Output: {
      const artifact::OutputKind kind = v.artifact.outputs.at(static_cast<size_t>(m.index)).kind;
      return kind == artifact::OutputKind::Integer ? "an integer"
             : kind == artifact::OutputKind::None  ? "None"
                                                   : "a tensor";
    }
    case Make::What::List: return fmt::format("[{}]", fmt::join(parts, ", "));
    case Make::What::Tuple: return fmt::format("({}{})", fmt::join(parts, ", "), parts.size() == 1 ? "," : "");
    case Make::What::Dict: break;
  }
  std::vector<std::string> items;
  for (size_t i = 0; i + 1 < parts.size(); i += 2) items.push_back(parts[i] + ": " + parts[i + 1]);
  return fmt::format("{{{}}}", fmt::join(items, ", "));
}

int64_t code_bytes(const Variant& v) {
  std::set<const machine::Object*> objects;
  int64_t bytes = 0;
  artifact::for_each_launch(v.artifact, [&](const artifact::Launch& l) {
    if (objects.insert(l.object.get()).second) bytes += static_cast<int64_t>(l.object->bytes.size());
  });
  return bytes;
}

}  // namespace

std::string text(const Program& p, const Variant& v, int place) {
  const Place& at = v.places.at(static_cast<size_t>(place));
  if (at.parent < 0) return p.parameters.at(static_cast<size_t>(at.index)).name;
  return fmt::format("{}[{}]", text(p, v, at.parent), at.key ? to_string(*at.key) : std::to_string(at.index));
}

std::string text(const Program& p, const Variant& v, const Check& c) {
  std::string what = text(p, v, c.place);
  switch (c.what) {
    case Check::What::Kind: return fmt::format("{} is {}", what, name(c.kind));
    case Check::What::Equals: return fmt::format("{} == {}", what, to_string(c.value));
    case Check::What::Length: return fmt::format("len({}) == {}", what, c.number);
    case Check::What::Keys: {
      std::vector<std::string> keys;
      for (const Scalar& k : c.keys) keys.push_back(to_string(k));
      return fmt::format("the keys of {} are {}", what, fmt::join(keys, ", "));
    }
    case Check::What::Present: return fmt::format("{} is given", what);
    case Check::What::Absent: return fmt::format("{} is not given", what);
    case Check::What::Same: return fmt::format("{} is {}", what, text(p, v, static_cast<int>(c.number)));
    case Check::What::Different: return fmt::format("{} is not {}", what, text(p, v, static_cast<int>(c.number)));
  }
  return what;
}

std::string signature(const Program& p) {
  using How = Parameter::How;
  std::vector<std::string> parts;
  bool positional_only = false, keyword_only = false;
  for (const Parameter& x : p.parameters) {
    if (positional_only && x.how != How::PositionalOnly) parts.emplace_back("/");
    positional_only = x.how == How::PositionalOnly;
    if (x.how == How::KeywordOnly && !keyword_only) parts.emplace_back("*");
    keyword_only |= x.how == How::KeywordOnly || x.how == How::Positionals;
    const char* stars = x.how == How::Positionals ? "*" : x.how == How::Keywords ? "**" : "";
    parts.push_back(fmt::format("{}{}{}", stars, x.name, x.fallback ? "=" + to_string(*x.fallback) : ""));
  }
  if (positional_only) parts.emplace_back("/");
  return fmt::format("{}({})", p.name, fmt::join(parts, ", "));
}

std::string print(const Program& p) {
  std::string out = signature(p) + "\n";
  int64_t inside = 0, outside = 0;
  for (const Storage& s : p.storages) (s.at >= 0 ? inside : outside) += s.bytes;
  out += fmt::format("{} weights, {} in the file", p.weights.size(), byte_text(inside));
  if (outside > 0) out += fmt::format(", {} in other files or given at load time", byte_text(outside));
  std::set<std::string> gpus;
  for (const Weight& w : p.weights)
    if (w.device.type != DeviceType::CPU) gpus.insert(to_string(w.device));
  out += gpus.empty() ? "\n" : fmt::format(", for {}\n", fmt::join(gpus, " and "));
  for (size_t i = 0; i < p.variants.size(); ++i) {
    const Variant& v = p.variants[i];
    const artifact::About& about = v.artifact.about;
    out += fmt::format("\nvariant {}: {} kernels ({} of code), {} calls into ATen; {}, torch {}\n", i,
                       about.kernels.size(), byte_text(code_bytes(v)), about.ops_extern, v.origin.target.cpu,
                       v.origin.torch);
    for (size_t k = 0; k < v.inputs.size(); ++k)
      if (v.inputs[k].place >= 0)
        out += fmt::format("  {}: {}\n", text(p, v, v.inputs[k].place), tensor_text(v.artifact.inputs[k].type));
    for (const artifact::Guard& g : v.artifact.guards) out += fmt::format("  where {}\n", g.text);
    for (const Check& c : v.checks) {
      const bool tensor = c.what == Check::What::Kind && c.kind == Kind::Tensor;
      if (!tensor) out += fmt::format("  where {}\n", text(p, v, c));
    }
    out += fmt::format("  -> {}\n", result_text(v, static_cast<int>(v.makes.size()) - 1));
  }
  if (!p.assumed.empty()) out += "\nassumed as it was when the program was saved, and not checked:\n";
  for (const std::string& a : p.assumed) out += fmt::format("  {}\n", a);
  return out;
}

}  // namespace vesta::program
