#include "artifact/packing.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "artifact/bytes.h"
#include "artifact/uses.h"
#include "base/digest.h"

namespace vesta::artifact {
namespace {

// Which steps belong together: those that use a buffer that is no input.
std::vector<int> parts_of(const Artifact& a) {
  std::vector<int> part(a.prepacked.size());
  std::iota(part.begin(), part.end(), 0);
  const auto root = [&](int step) {
    while (part[static_cast<size_t>(step)] != step) step = part[static_cast<size_t>(step)];
    return step;
  };
  std::vector<int> first_use(a.buffers.size(), -1);
  for (int i = 0; i < static_cast<int>(part.size()); ++i) {
    for_each_use(a.prepacked[static_cast<size_t>(i)], [&](int b, uint8_t, bool) {
      if (a.buffers[static_cast<size_t>(b)].role == Role::Input) return;
      int& first = first_use[static_cast<size_t>(b)];
      if (first < 0) first = i;
      const auto [low, high] = std::minmax({root(first), root(i)});
      part[static_cast<size_t>(high)] = low;
    });
  }
  for (int i = 0; i < static_cast<int>(part.size()); ++i) part[static_cast<size_t>(i)] = root(i);
  return part;
}

bool is_constant(const TensorDesc& t) {
  const auto constant = [](const Size& s) { return s.is_constant(); };
  return std::all_of(t.sizes.begin(), t.sizes.end(), constant) &&
         std::all_of(t.strides.begin(), t.strides.end(), constant);
}

// Writes the steps of a packing as an artifact of their own, whose buffers are numbered as the steps use them and whose
// outputs are the kept buffers. What depends on the rest of the program (labels, source lines, lives) is left out.
class Extract {
 public:
  explicit Extract(const Artifact& from) : from_(from) { out_.device = from.device; }

  void add(Step step) {
    if (auto* l = std::get_if<Launch>(&step)) {
      l->name.clear();
      // The symbol stands for the bytes.
      l->object = std::make_shared<machine::Object>(machine::Object{l->object->form, l->object->symbol, {}});
      for (int& b : l->buffers) b = number(b);
    } else if (auto* e = std::get_if<Extern>(&step)) {
      e->source.clear();
      for (Arg& arg : e->args) {
        if (auto* v = std::get_if<View>(&arg.value)) view(*v);
        if (auto* list = std::get_if<std::vector<View>>(&arg.value))
          for (View& v : *list) view(v);
      }
      for (int& b : e->results)
        if (b >= 0) b = number(b);
    } else {
      constant_ = false;  // neither an entry nor an assertion makes constants
    }
    for_each_size(step, [&](const Size& s) { constant_ &= s.is_constant(); });
    out_.prepacked.push_back(std::move(step));
  }

  // `kept`: as in Packing. Empty if a size is not constant.
  std::string name(const std::vector<int>& kept) {
    if (!constant_) return {};
    for (const int b : kept) {
      Output output;
      output.view.buffer = number(b);
      out_.outputs.push_back(std::move(output));
    }
    return digest({encode(out_)});
  }
  const std::vector<int>& parameters() const { return parameters_; }

 private:
  void view(View& v) {
    if (v.buffer >= 0) v.buffer = number(v.buffer);
  }
  int number(int buffer) {
    const auto [at, fresh] = numbers_.emplace(buffer, static_cast<int>(numbers_.size()));
    if (!fresh) return at->second;
    const Buffer& b = from_.buffers[static_cast<size_t>(buffer)];
    Buffer copy;
    copy.role = b.role;
    copy.type = b.type;
    constant_ &= is_constant(b.type);
    if (b.role == Role::Input) {
      // An input that two buffers show has one number.
      const auto known = std::find(parameters_.begin(), parameters_.end(), b.input);
      copy.input = static_cast<int>(known - parameters_.begin());
      if (known == parameters_.end()) parameters_.push_back(b.input);
    }
    out_.buffers.push_back(std::move(copy));
    return at->second;
  }

  const Artifact& from_;
  Artifact out_;
  std::map<int, int> numbers_;
  std::vector<int> parameters_;
  bool constant_ = true;
};

}  // namespace

std::vector<Packing> packings_of(const Artifact& a) {
  const std::vector<int> part = parts_of(a);
  const std::vector<bool> kept = read_by_runs(a);
  std::map<int, Packing> packings;
  std::map<int, Extract> extracts;
  for (int i = 0; i < static_cast<int>(part.size()); ++i) {
    const Step& step = a.prepacked[static_cast<size_t>(i)];
    Packing& packing = packings[part[static_cast<size_t>(i)]];
    packing.steps.push_back(i);
    extracts.try_emplace(part[static_cast<size_t>(i)], a).first->second.add(step);
    for_each_use(step, [&](int b, uint8_t, bool) {
      const bool is_kept = a.buffers[static_cast<size_t>(b)].role == Role::Prepacked && kept[static_cast<size_t>(b)];
      if (is_kept && std::find(packing.kept.begin(), packing.kept.end(), b) == packing.kept.end())
        packing.kept.push_back(b);
    });
  }
  std::vector<Packing> out;
  for (auto& [first, packing] : packings) {
    Extract& extract = extracts.at(first);
    packing.parameters = extract.parameters();
    packing.name = extract.name(packing.kept);
    out.push_back(std::move(packing));
  }
  return out;
}

std::vector<bool> read_by_runs(const Artifact& a) {
  std::vector<bool> read(a.buffers.size());
  const auto note = [&](int buffer) {
    if (buffer >= 0) read[static_cast<size_t>(buffer)] = true;
  };
  for (const Step& s : a.steps) for_each_needed(s, note);
  for (const Output& o : a.outputs) note(o.view.buffer);
  return read;
}

}  // namespace vesta::artifact
