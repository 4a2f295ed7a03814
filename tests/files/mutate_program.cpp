#include <fmt/format.h>

#include "mutate.h"

namespace vesta::files {
namespace {

using namespace program;

template <class T>
int64_t count(const std::vector<T>& v) {
  return static_cast<int64_t>(v.size());
}

class Mutator {
 public:
  Mutator(Program& p, Random& r) : p_(p), r_(r) {}

  std::string run() {
    Variant& v = r_.of(p_.variants);
    switch (r_.below(24)) {
      case 0: return parameter();
      case 1: return place(v);
      case 2: return check(v);
      case 3: return input(v);
      case 4: return number(v.integers, count(v.places)), "an integer's place";
      case 5: return make(v);
      case 6: return weight();
      case 7: return storage();
      case 8: return origin(v);
      default: return mutate(v.artifact, r_);
    }
  }

 private:
  void number(int& x, int64_t n) { x = static_cast<int>(r_.number(x, n)); }
  void number(std::vector<int>& list, int64_t n) {
    if (list.empty() || r_.one_in(4))
      list.push_back(static_cast<int>(r_.number(0, n)));
    else if (r_.one_in(4))
      list.pop_back();
    else
      number(r_.of(list), n);
  }
  void number(std::vector<int64_t>& list) {
    if (list.empty() || r_.one_in(6))
      list.push_back(r_.number(1, 4));
    else if (r_.one_in(6))
      list.pop_back();
    else
      r_.of(list) = r_.number(r_.of(list), 8);
  }
  Scalar scalar() {
    const Scalar some[] = {Scalar(),
                           Scalar(true),
                           Scalar(r_.number(0, 8)),
                           Scalar(0.5),
                           Scalar(std::complex<double>(1, 2)),
                           Scalar(std::string("sum")),
                           Scalar(Name{"torch.float16"})};
    return some[r_.below(std::size(some))];
  }

  std::string parameter() {
    if (r_.one_in(4)) return p_.parameters.pop_back(), "a parameter less";
    if (r_.one_in(4)) return p_.parameters.push_back(r_.of(p_.parameters)), "a parameter more";
    Parameter& x = r_.of(p_.parameters);
    if (r_.one_in(2)) return x.how = static_cast<Parameter::How>(r_.below(5)), "a parameter's kind";
    return x.fallback = r_.one_in(2) ? std::nullopt : std::optional(scalar()), "a parameter's default";
  }
  std::string place(Variant& v) {
    Place& x = r_.of(v.places);
    switch (r_.below(4)) {
      case 0: return number(x.parent, count(v.places)), "a place's parent";
      case 1: return number(x.index, 4), "a place's index";
      case 2: return x.key = r_.one_in(2) ? std::nullopt : std::optional(scalar()), "a place's key";
      default: return v.places.pop_back(), "a place less";
    }
  }
  std::string check(Variant& v) {
    if (v.checks.empty() || r_.one_in(8)) return v.checks.clear(), "no checks";
    Check& x = r_.of(v.checks);
    switch (r_.below(6)) {
      case 0: return x.what = static_cast<Check::What>(r_.below(8)), "what is checked";
      case 1: return number(x.place, count(v.places)), "where is checked";
      case 2: return x.kind = static_cast<Kind>(r_.below(11)), "the kind that is checked";
      case 3: return x.value = scalar(), "the value that is checked";
      case 4: return x.number = r_.number(x.number, count(v.places)), "the number that is checked";
      default: return x.keys.push_back(scalar()), "the keys that are checked";
    }
  }
  std::string input(Variant& v) {
    if (v.inputs.empty()) return "nothing";
    Input& x = r_.of(v.inputs);
    switch (r_.below(5)) {
      case 0: return number(x.place, count(v.places)), "an input's place";
      case 1: return number(x.weight, count(p_.weights)), "an input's weight";
      case 2: return x = {-1, static_cast<int>(r_.number(0, count(p_.weights))), false}, "a weight as input";
      case 3: return x.is_number = !x.is_number, "an input that is a number";
      default: return std::swap(x, r_.of(v.inputs)), "the order of inputs";
    }
  }
  std::string make(Variant& v) {
    Make& x = r_.of(v.makes);
    switch (r_.below(5)) {
      case 0: return x.what = static_cast<Make::What>(r_.below(7)), "how a result is made";
      case 1: return x.value = scalar(), "a constant result";
      case 2: return number(x.index, 4), "what a result is";
      case 3: return number(x.parts, count(v.makes)), "the parts of a result";
      default: return std::swap(x, r_.of(v.makes)), "the order of results";
    }
  }
  std::string weight() {
    if (p_.weights.empty()) return "nothing";
    Weight& x = r_.of(p_.weights);
    switch (r_.below(6)) {
      case 0: return x.dtype = static_cast<DType>(r_.below(static_cast<size_t>(DType::Other) + 1)), "a weight's type";
      case 1: return x.device = {static_cast<DeviceType>(r_.below(4)), 0}, "a weight's device";
      case 2: return number(x.sizes), "a weight's sizes";
      case 3: return number(x.strides), "a weight's strides";
      case 4: return number(x.storage, count(p_.storages)), "a weight's storage";
      default: return x.offset = r_.number(x.offset, 8), "a weight's offset";
    }
  }
  std::string storage() {
    if (p_.storages.empty()) return "nothing";
    Storage& x = r_.of(p_.storages);
    if (r_.one_in(2)) return x.bytes = r_.number(x.bytes, 4096), "a storage's size";
    return x.at = r_.one_in(2) ? 64 * static_cast<int64_t>(r_.below(8)) : r_.number(x.at, 4096), "a storage's place";
  }
  std::string origin(Variant& v) {
    switch (r_.below(4)) {
      case 0: return v.origin.torch += "x", "the version of torch";
      case 1: return v.origin.target.features += ",+none", "the target";
      case 2: return v.origin.graph = "", "the graph's text";
      default: return v.origin.numerics = "none", "the numerics";
    }
  }

  Program& p_;
  Random& r_;
};

}  // namespace

std::string mutate(Program& p, Random& random) {
  std::string done;
  for (size_t i = 0, n = 1 + random.below(3); i < n && !p.variants.empty() && !p.parameters.empty(); ++i)
    done += (i ? "; " : "") + Mutator(p, random).run();
  return done;
}

}  // namespace vesta::files
