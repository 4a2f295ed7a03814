#include "artifact/returned.h"

#include <algorithm>

#include "artifact/require.h"
#include "artifact/uses.h"

namespace vesta::artifact {
namespace {

size_t index(int i) { return static_cast<size_t>(i); }

void verify_definitions(const Artifact& a) {
  std::vector<int> times(a.symbols.size());
  for (const Step& s : a.prepacked) {
    const auto* e = std::get_if<Extern>(&s);
    VESTA_REQUIRE(!e || e->integers.empty(), "the {} of a prepacked constant defines a symbol", e->op);
  }
  for (const Step& s : a.steps) {
    const auto* e = std::get_if<Extern>(&s);
    if (!e || e->integers.empty()) continue;
    VESTA_REQUIRE(e->integers.size() == e->results.size(), "{} has {} results but says what {} of them define", e->op,
                  e->results.size(), e->integers.size());
    bool any = false;
    for (size_t i = 0; i < e->integers.size(); ++i) {
      const int symbol = e->integers[i];
      if (symbol == -1) continue;
      any = true;
      VESTA_REQUIRE(symbol >= 0 && index(symbol) < a.symbols.size() && a.symbols[index(symbol)].input == kReturned,
                    "{} defines symbol {}, which is not a symbol of a step", e->op, symbol);
      VESTA_REQUIRE(e->results[i] == -1, "{} returns an integer to buffer {}", e->op, e->results[i]);
      ++times[index(symbol)];
    }
    VESTA_REQUIRE(any, "{} claims to define symbols but defines none", e->op);
  }
  for (size_t i = 0; i < times.size(); ++i)
    VESTA_REQUIRE(times[i] == (a.symbols[i].input == kReturned), "{} steps define symbol {}", times[i], i);
}

class Needs {
 public:
  explicit Needs(const Artifact& a) : a_(a), when_(a) {}

  void run() const {
    if (when_.none()) return;
    for (const InputDesc& i : a_.inputs) require("an input", i.type, kBeforeTheRun);
    for (const Guard& g : a_.guards)
      for (const Size* s : {&g.left, &g.right}) require("a guard", *s, kBeforeTheRun);
    for (const Buffer& b : a_.buffers) {
      if (b.role != Role::Arena) continue;
      require("the arena", b.type, kBeforeTheRun);
      require("the arena", b.bytes, kBeforeTheRun);
    }
    for (const Step& s : a_.prepacked) step("a prepacked constant", s, kBeforeTheRun, kBeforeTheRun);
    for (int i = 0; i < static_cast<int>(a_.steps.size()); ++i) step("a step", a_.steps[index(i)], i - 1, i);
  }

 private:
  template <class T>
  void require(const char* who, const T& size, int when) const {
    VESTA_REQUIRE(when_.known_after(size) <= when, "{} needs a size that step {} defines{}", who,
                  when_.known_after(size), when < 0 ? " before the run" : fmt::format(", after step {}", when));
  }
  // `before`: the last step that has run when `s` begins; `own`: the same once its results are stored.
  void step(const char* who, const Step& s, int before, int own) const {
    for_each_size(s, [&](const Size& size) { require(who, size, before); });
    for_each_use(s, [&](int b, uint8_t access, bool is_kernel) {
      require(who, a_.buffers[index(b)].type, access & kReads || is_kernel ? before : own);
    });
  }

  const Artifact& a_;
  const Definitions when_;
};

}  // namespace

Definitions::Definitions(const Artifact& a)
    : by_symbol_(a.symbols.size(), kBeforeTheRun), count_(static_cast<int>(a.steps.size())) {
  for (int i = 0; i < count_; ++i) {
    const auto* e = std::get_if<Extern>(&a.steps[index(i)]);
    if (!e || e->integers.empty()) continue;
    steps_.push_back(i);
    for (const int symbol : e->integers)
      if (symbol >= 0) by_symbol_[index(symbol)] = i;
  }
}

int Definitions::next(int step) const {
  const auto found = std::lower_bound(steps_.begin(), steps_.end(), step);
  return found == steps_.end() ? count_ : *found;
}

int Definitions::known_after(const Size& s) const {
  int last = kBeforeTheRun;
  if (none()) return last;
  for (const Size::Step& step : s.steps)
    if (step.code == Size::Code::Symbol) last = std::max(last, by_symbol_[index(static_cast<int>(step.value))]);
  return last;
}

int Definitions::known_after(const TensorDesc& t) const {
  int last = kBeforeTheRun;
  if (none()) return last;
  for (const auto* list : {&t.sizes, &t.strides})
    for (const Size& s : *list) last = std::max(last, known_after(s));
  return last;
}

void verify_returned(const Artifact& a) {
  verify_definitions(a);
  Needs(a).run();
}

}  // namespace vesta::artifact
