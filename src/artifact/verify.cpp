#include <algorithm>

#include "artifact/bytes.h"
#include "artifact/require.h"
#include "artifact/returned.h"
#include "artifact/uses.h"

namespace vesta::artifact {
namespace {

constexpr int64_t kMostValue = 8;       // bytes of an argument that is a number
constexpr int kMostShared = 256 << 10;  // bytes; no GPU has more

// Compares where each buffer is used with the life that it declares: a step uses no buffer outside its life in the
// arena, reads no prepacked constant that no step makes, and writes no buffer that it may not write; no two buffers of
// the arena share memory while both live (constant sizes only). Indices must be verified before.
class Lives {
 public:
  explicit Lives(const Artifact& a) : a_(a), prepacked_(a.buffers.size()), used_(a.buffers.size()) {}

  void run() {
    for (const Step& s : a_.prepacked) {
      for_each_use(s, [&](int b, uint8_t access, bool is_kernel) {
        VESTA_REQUIRE(!(access & kWrites) || at(b).role != Role::Input,
                      "a step that makes prepacked constants writes to input {}", at(b).input);
        if (access & kWrites || is_kernel) prepacked_[index(b)] = true;
      });
    }
    for (size_t i = 0; i < a_.steps.size(); ++i) {
      const bool is_call = !std::holds_alternative<Launch>(a_.steps[i]);
      for_each_use(a_.steps[i], [&](int b, uint8_t access, bool) {
        lives(b, static_cast<int>(i));
        if (!(access & kWrites)) return;
        VESTA_REQUIRE(at(b).role != Role::Prepacked, "step {} writes the prepacked constant {}", i, b);
        VESTA_REQUIRE(at(b).role != Role::Input || (!is_call && is_written(at(b).input)),
                      "step {} writes to input {}, which the program does not change", i, at(b).input);
      });
    }
    for (const Output& o : a_.outputs)
      if (o.kind == OutputKind::Fresh && !a_.steps.empty()) lives(o.view.buffer, static_cast<int>(a_.steps.size()) - 1);
    if (a_.is_static) nothing_overlaps();
  }

 private:
  static size_t index(int i) { return static_cast<size_t>(i); }
  const Buffer& at(int b) const { return a_.buffers[index(b)]; }

  bool is_written(int input) const {
    return std::any_of(a_.steps.begin(), a_.steps.end(), [&](const Step& s) {
      const auto* c = std::get_if<CopyBack>(&s);
      return c && c->input == input && c->from.buffer >= 0 && at(c->from.buffer).role == Role::Input &&
             at(c->from.buffer).input == input;
    });
  }

  void lives(int b, int step) {
    const Buffer& buffer = at(b);
    used_[index(b)] = true;
    VESTA_REQUIRE(buffer.role != Role::Prepacked || prepacked_[index(b)], "no step makes the prepacked constant {}", b);
    if (buffer.role != Role::Arena) return;
    VESTA_REQUIRE(buffer.first_step <= step && step <= buffer.last_step,
                  "step {} uses buffer {}, which lives from step {} to {}", step, b, buffer.first_step,
                  buffer.last_step);
    VESTA_REQUIRE(!a_.is_static || a_.arena.offsets[index(b)] >= 0, "buffer {} has no place in the arena", b);
  }

  // Buffers in the order of their first step. Each is compared with those that began before it and still live.
  void nothing_overlaps() const {
    std::vector<int> order, living;
    for (int b = 0; b < static_cast<int>(a_.buffers.size()); ++b)
      if (used_[index(b)] && at(b).role == Role::Arena && at(b).bytes.steps[0].value > 0) order.push_back(b);
    std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return at(x).first_step < at(y).first_step; });
    for (const int b : order) {
      std::erase_if(living, [&](int other) { return at(other).last_step < at(b).first_step; });
      const int64_t begin = a_.arena.offsets[index(b)], end = begin + at(b).bytes.steps[0].value;
      for (const int other : living) {
        const int64_t from = a_.arena.offsets[index(other)], to = from + at(other).bytes.steps[0].value;
        VESTA_REQUIRE(
            end <= from || to <= begin || a_.arena.is_early(at(b).last_step) != a_.arena.is_early(at(other).last_step),
            "buffers {} and {} of the arena share memory", other, b);
      }
      living.push_back(b);
    }
  }

  const Artifact& a_;
  std::vector<bool> prepacked_, used_;
};

class Verifier {
 public:
  explicit Verifier(const Artifact& a) : a_(a), device_(a.device) {}

  void run() const {
    device();
    for (const InputDesc& i : a_.inputs) {
      tensor(i.type);
      VESTA_REQUIRE(i.alignment > 0 && i.alignment <= kArenaAlignment && (i.alignment & (i.alignment - 1)) == 0,
                    "an input aligned to {} bytes", i.alignment);
    }
    for (const SymbolSource& s : a_.symbols) {
      VESTA_REQUIRE(s.input >= kReturned && s.input < count(a_.inputs) &&
                        (s.input < 0 || s.dim < count(a_.inputs[index(s.input)].type.sizes)),
                    "a symbol is read from dimension {} of input {}, which does not exist", s.dim, s.input);
      VESTA_REQUIRE(s.dim >= 0 && s.dim < kMostIntegers, "a symbol is read from integer {}", s.dim);
    }
    for (const Guard& g : a_.guards) size(g.left), size(g.right);
    for (const auto& group : a_.facts.same)
      for (const int i : group) input(i);
    for (const auto& [i, offset] : a_.facts.offsets) input(i);
    for (const auto& [i, conj_neg] : a_.facts.conj_neg) input(i);
    for (const int i : a_.mutated) input(i);
    for (const int i : a_.prepacked_parameters) input(i);
    for (const Buffer& b : a_.buffers) {
      buffer(b);
      VESTA_REQUIRE(b.role != Role::Arena || b.type.device == device_, "an arena on {} and {}", to_string(device_),
                    to_string(b.type.device));
    }
    VESTA_REQUIRE(a_.arena.offsets.size() == a_.buffers.size(), "{} offsets for {} buffers", a_.arena.offsets.size(),
                  a_.buffers.size());
    VESTA_REQUIRE(a_.arena.kept_bytes >= 0 && a_.arena.early_bytes >= 0, "an arena of negative size");
    VESTA_REQUIRE(!a_.is_static || a_.symbols.empty(), "symbols where every size is a constant");
    if (a_.is_static) arena();
    for (const Step& s : a_.prepacked) {
      VESTA_REQUIRE(!std::holds_alternative<Call>(s), "a call of an entry makes a prepacked constant");
      step(s);
    }
    for (const Step& s : a_.steps) step(s);
    bool hidden = false;
    for (int i = 0; i < count(a_.outputs); ++i) {
      output(i);
      VESTA_REQUIRE(!hidden || a_.outputs[index(i)].hidden, "a hidden output before others");
      hidden = a_.outputs[index(i)].hidden;
    }
    verify_returned(a_);
    Lives(a_).run();
  }

 private:
  static constexpr int kMostIntegers = 1 << 16, kMostDims = 64, kMostDepth = 64;

  template <class T>
  static int count(const std::vector<T>& v) {
    return static_cast<int>(v.size());
  }
  static size_t index(int i) { return static_cast<size_t>(i); }

  void device() const {
    if (device_.type == DeviceType::CPU) return;
    const bool used =
        std::any_of(a_.buffers.begin(), a_.buffers.end(), [&](const Buffer& b) { return b.type.device == device_; });
    VESTA_REQUIRE(device_.type == DeviceType::CUDA && used, "a program for {} that keeps nothing there",
                  to_string(device_));
  }
  void input(int i) const { VESTA_REQUIRE(i >= 0 && i < count(a_.inputs), "there is no input {}", i); }
  const Buffer& existing(int i) const {
    VESTA_REQUIRE(i >= 0 && i < count(a_.buffers), "there is no buffer {}", i);
    return a_.buffers[index(i)];
  }

  // The evaluation never pops from an empty stack and ends with one value.
  void size(const Size& s) const {
    int depth = 0;
    for (const Size::Step& step : s.steps) {
      const bool pushes = step.code == Size::Code::Constant || step.code == Size::Code::Symbol;
      VESTA_REQUIRE(step.code != Size::Code::Symbol || (step.value >= 0 && step.value < count(a_.symbols)),
                    "there is no symbol {}", step.value);
      depth += pushes ? 1 : -1;
      VESTA_REQUIRE(depth > 0 && depth < kMostDepth, "an expression that cannot be evaluated");
    }
    VESTA_REQUIRE(depth == 1, "an expression without a value");
    VESTA_REQUIRE(!a_.is_static || s.is_constant(), "an expression that is not constant");
  }
  void shape(const std::vector<Size>& sizes, const std::vector<Size>& strides) const {
    VESTA_REQUIRE(sizes.size() == strides.size() && sizes.size() <= kMostDims, "{} sizes with {} strides", sizes.size(),
                  strides.size());
    for (const auto* list : {&sizes, &strides})
      for (const Size& s : *list) size(s);
  }
  void tensor(const TensorDesc& t) const { shape(t.sizes, t.strides); }
  static bool same(const std::vector<Size>& x, const std::vector<Size>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const Size& a, const Size& b) {
      return std::equal(
          a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(),
          [](const Size::Step& i, const Size::Step& k) { return i.code == k.code && i.value == k.value; });
    });
  }
  static bool same(const TensorDesc& x, const TensorDesc& y) {
    return x.dtype == y.dtype && x.device == y.device && same(x.sizes, y.sizes) && same(x.strides, y.strides);
  }

  // Bytes that the elements of the tensor reach. Sizes must be constants.
  static int64_t extent(const std::vector<Size>& sizes_of, const std::vector<Size>& strides, DType t) {
    const auto values = [](const std::vector<Size>& list) {
      std::vector<int64_t> out;
      for (const Size& s : list) out.push_back(s.steps[0].value);
      return out;
    };
    return reach(values(sizes_of), values(strides), element_size(t));
  }

  void buffer(const Buffer& b) const {
    tensor(b.type);
    size(b.bytes);
    if (b.role == Role::Input) {
      input(b.input);
      VESTA_REQUIRE(same(b.type, a_.inputs[index(b.input)].type), "a buffer that is not what input {} is", b.input);
    }
    if (b.role == Role::Prepacked)  // made for the sizes of one call, used by the next calls
      for (const auto* list : {&b.type.sizes, &b.type.strides})
        VESTA_REQUIRE(std::all_of(list->begin(), list->end(), [](const Size& s) { return s.is_constant(); }),
                      "a prepacked constant whose size is not constant");
    if (b.role == Role::Output)
      VESTA_REQUIRE(b.output >= 0 && b.output < count(a_.outputs), "there is no output {}", b.output);
    // Even without steps there are buffers: those of results without elements.
    VESTA_REQUIRE(b.last_step <= std::max(count(a_.steps) - 1, 0) && b.first_step >= -1 &&
                      b.first_step <= std::max(b.last_step, 0),
                  "a buffer lives from step {} to {}", b.first_step, b.last_step);
    if (a_.is_static && b.role == Role::Arena)
      VESTA_REQUIRE(b.bytes.steps[0].value >= extent(b.type.sizes, b.type.strides, b.type.dtype),
                    "a buffer of {} bytes is too small", b.bytes.steps[0].value);
  }
  void arena() const {
    for (size_t i = 0; i < a_.buffers.size(); ++i) {
      const Buffer& b = a_.buffers[i];
      const int64_t at = a_.arena.offsets[i];
      if (b.role != Role::Arena || at < 0) continue;
      const int64_t end = a_.arena.is_early(b.last_step) ? a_.arena.early_bytes : a_.arena.kept_bytes;
      VESTA_REQUIRE(at % kArenaAlignment == 0 && at <= end && b.bytes.steps[0].value <= end - at,
                    "a buffer at {} of an arena of {} bytes", at, end);
    }
  }

  void view(const View& v) const {
    if (v.buffer < 0) {
      VESTA_REQUIRE(v.buffer == -1, "there is no buffer {}", v.buffer);
      return;
    }
    const Buffer& b = existing(v.buffer);
    if (v.whole) return;
    shape(v.sizes, v.strides);
    size(v.offset);
    if (!a_.is_static) return;
    const int64_t offset = v.offset.steps[0].value;
    const int64_t bytes = extent(v.sizes, v.strides, v.dtype);
    const int64_t whole = extent(b.type.sizes, b.type.strides, b.type.dtype);
    VESTA_REQUIRE(bytes == 0 || (offset >= 0 && offset <= whole &&
                                 static_cast<__int128>(offset) * element_size(v.dtype) <= whole - bytes),
                  "a view beyond its buffer");
  }

  void step(const Step& s) const {
    std::visit([&](const auto& x) { check(x); }, s);
    for_each_view(s, [&](const View& v) { view(v); });
    for_each_size(s, [&](const Size& x) { size(x); });
  }
  void check(const Launch& l) const {
    VESTA_REQUIRE(l.object && l.buffers.size() == l.offsets.size(), "{} buffers with {} offsets", l.buffers.size(),
                  l.offsets.size());
    VESTA_REQUIRE(l.access.empty() || l.access.size() == l.buffers.size(), "{} buffers with {} kinds of access",
                  l.buffers.size(), l.access.size());
    for (const uint8_t kinds : l.access) VESTA_REQUIRE(kinds <= (kReads | kWrites), "an access {}", kinds);
    const bool is_cpu = device_.type == DeviceType::CPU;
    VESTA_REQUIRE(is_cpu == (l.grid.block == 0) && is_cpu == (l.object->form != machine::Form::Cuda),
                  "a kernel for another device than {}", to_string(device_));
    VESTA_REQUIRE(is_cpu || (l.grid.block % 32 == 0 && l.grid.block > 0 && l.grid.block <= 1024 && l.grid.items > 0 &&
                             l.grid.items <= 16 * l.grid.block && l.grid.shared >= 0 && l.grid.shared <= kMostShared),
                  "blocks of {} threads for {} items with {} bytes shared", l.grid.block, l.grid.items, l.grid.shared);
    for (size_t i = 0; i < l.buffers.size(); ++i) {
      const TensorDesc& t = existing(l.buffers[i]).type;
      if (t.device == device_) continue;
      VESTA_REQUIRE(!is_cpu && t.device.type == DeviceType::CPU, "a kernel's buffer {} on {}", l.buffers[i],
                    to_string(t.device));
      // It is passed by value.
      const bool read = !l.access.empty() && l.access[i] == kReads;
      VESTA_REQUIRE(read && t.sizes.empty() && !is_complex(t.dtype) && element_size(t.dtype) <= kMostValue,
                    "an argument of a kernel that is not a number");
      VESTA_REQUIRE(l.offsets[i].is_constant() && l.offsets[i].steps[0].value == 0, "a number at an offset");
    }
  }
  void check(const Extern& e) const {
    for (const int r : e.results)
      if (r != -1) existing(r);
  }
  void check(const Call& c) const {
    VESTA_REQUIRE(c.entry >= 0 && c.entry < count(a_.entries), "there is no entry {}", c.entry);
    const Artifact& e = a_.entries[index(c.entry)];
    VESTA_REQUIRE(c.inputs.size() == e.inputs.size() && c.results.size() == e.outputs.size(),
                  "entry {} has {} inputs and {} outputs, a call {} and {}", c.entry, e.inputs.size(), e.outputs.size(),
                  c.inputs.size(), c.results.size());
    for (const View& v : c.inputs) existing(v.buffer);
    for (const int r : c.results)
      if (r != -1) existing(r);
    VESTA_REQUIRE(e.mutated.empty() && e.prepacked.empty(), "a step calls entry {}, which {}", c.entry,
                  e.mutated.empty() ? "derives weights" : "writes its inputs");
    for (const SymbolSource& s : e.symbols)
      VESTA_REQUIRE(s.input != kArgument, "a step calls entry {}, which takes integers", c.entry);
    for (const Output& o : e.outputs)
      VESTA_REQUIRE(o.kind == OutputKind::Fresh && !o.hidden,
                    "a step calls entry {}, which returns more than new tensors", c.entry);
    for (const Step& s : e.steps)
      VESTA_REQUIRE(!std::holds_alternative<CopyBack>(s), "a step calls entry {}, which writes its inputs", c.entry);
  }
  void check(const Assert& a) const {
    const TensorDesc& t = existing(a.flag).type;
    VESTA_REQUIRE(t.dtype == DType::Bool && t.sizes.empty() && t.device.type == DeviceType::CPU,
                  "buffer {} is not a flag", a.flag);
  }
  void check(const CopyBack& c) const {
    input(c.input);
    existing(c.from.buffer);
  }

  void output(int i) const {
    const Output& o = a_.outputs[index(i)];
    view(o.view);
    switch (o.kind) {
      case OutputKind::Fresh: existing(o.view.buffer); return;
      case OutputKind::Input: return input(o.alias);
      case OutputKind::InputView: input(o.alias); break;
      case OutputKind::OutputView:
        VESTA_REQUIRE(
            o.alias >= 0 && o.alias < count(a_.outputs) && a_.outputs[index(o.alias)].kind == OutputKind::Fresh,
            "output {} is a view of output {}", i, o.alias);
        break;
      case OutputKind::Integer: return size(o.integer);
      case OutputKind::None: return;
    }
    tensor(o.type);
    size(o.storage_offset);
  }

  const Artifact& a_;
  const Device device_;
};

}  // namespace

int64_t reach(std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t item) {
  __int128 last = 0;
  bool empty = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    VESTA_REQUIRE(sizes[d] >= 0 && strides[d] >= 0, "a size of {} with stride {}", sizes[d], strides[d]);
    empty |= sizes[d] == 0;
    if (!empty) last += static_cast<__int128>(sizes[d] - 1) * strides[d];
    VESTA_REQUIRE(last < (int64_t{1} << 56), "a tensor larger than any memory");
  }
  return empty ? 0 : (static_cast<int64_t>(last) + 1) * item;
}

namespace {

void verify(const Artifact& artifact, int depth) {
  VESTA_REQUIRE(depth <= kMostNested, "entries more than {} deep", kMostNested);
  for (const Artifact& entry : artifact.entries) verify(entry, depth + 1);
  Verifier(artifact).run();
}

}  // namespace

void verify(const Artifact& artifact) { verify(artifact, 0); }

}  // namespace vesta::artifact
