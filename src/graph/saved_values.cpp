#include "graph/saved_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/target.h"
#include "graph/recompute_choice.h"
#include "vesta/error.h"

namespace vesta::graph {
namespace {

std::optional<int64_t> bytes_of(const Limit& limit, int64_t eager_bytes) {
  if ((limit.fraction && !(*limit.fraction >= 0)) || (limit.bytes && *limit.bytes < 0))
    throw UserError("a limit of saved bytes is negative");
  std::optional<int64_t> out = limit.bytes;
  if (limit.fraction) {
    const double bytes = std::floor(*limit.fraction * static_cast<double>(eager_bytes));
    out = std::min(out.value_or(INT64_MAX), static_cast<int64_t>(std::min(bytes, 9e18)));
  }
  return out;
}

class Result {
 public:
  Result(const RecomputeProblem& p, RecomputeChoice choice)
      : p_(p), choice_(std::move(choice)), outcome_(outcome_of(p, choice_.recomputes)) {}

  SavedValues run(const Outcome& eager, std::optional<int64_t> limit) {
    out_.bytes = outcome_.bytes;
    out_.eager_bytes = eager.bytes;
    out_.limit = limit;
    for (size_t s = 0; s < p_.storages.size(); ++s)
      if (outcome_.saved[s]) add_saved(p_.storages[s]);
    int64_t again = 0;
    for (size_t i = 0; i < p_.items.size(); ++i) {
      if (!outcome_.computed[i]) continue;
      const RecomputeProblem::Item& item = p_.items[i];
      (item.program ? out_.recomputed : out_.moved).push_back(item.node);
      again += item.cost;
    }
    out_.recompute_us = microseconds(again);
    out_.load_us = microseconds(outcome_.time - again);
    out_.eager_us = microseconds(eager.time);
    return std::move(out_);
  }

 private:
  void add_saved(const RecomputeProblem::Storage& s) {
    out_.saved.push_back(s.value);
    if (s.copied) out_.copied.push_back(s.value);
    if (s.bytes > 0) out_.kept.push_back({s.value, s.bytes, why(s)});
  }
  KeptFor why(const RecomputeProblem::Storage& s) const {
    if (s.item < 0) return KeptFor::Input;
    if (s.copied) return KeptFor::Output;
    const RecomputeProblem::Item& item = p_.items[static_cast<size_t>(s.item)];
    if (!item.node->op->row) return KeptFor::Unknown;
    if (item.pinned || is_drawn(item)) return KeptFor::Random;
    if (item.leaves_region) return KeptFor::Region;
    if (item.library) return KeptFor::Library;
    return choice_.ends_chain[static_cast<size_t>(s.item)] ? KeptFor::Chain : KeptFor::Time;
  }
  // The booleans of what narrow_masks() found.
  bool is_drawn(const RecomputeProblem::Item& item) const {
    return std::ranges::any_of(item.reads, [&](int s) {
      const int from = p_.storages[static_cast<size_t>(s)].item;
      if (from < 0) return false;
      const RecomputeProblem::Item& read = p_.items[static_cast<size_t>(from)];
      return read.pinned && read.node->op->row;
    });
  }
  double microseconds(int64_t time) const {
    return static_cast<double>(time) / static_cast<double>(kUnits) / p_.bytes_per_ns / 1000;
  }

  const RecomputeProblem& p_;
  const RecomputeChoice choice_;
  const Outcome outcome_;
  SavedValues out_;
};

void add_node(std::string& out, std::string_view what, const Node& n) {
  out += what;
  for (const Value* v : n.results)
    if (v) fmt::format_to(std::back_inserter(out), " %{}", v->id);
  fmt::format_to(std::back_inserter(out), " {}", n.op->name);
  if (!n.source.empty()) fmt::format_to(std::back_inserter(out), " @ {}", n.source);
  out += '\n';
}

}  // namespace

std::string_view text_of(KeptFor why) {
  switch (why) {
    case KeptFor::Time: return "loading it takes less time";
    case KeptFor::Random: return "refused: random";
    case KeptFor::Unknown: return "refused: the operator has no row in the op table";
    case KeptFor::Library: return "refused: a library call";
    case KeptFor::Chain: return "refused: the chain that is computed again would be too long";
    case KeptFor::Region: return "refused: the result of a checkpoint";
    case KeptFor::Input: return "a copy: the program may write to this input";
    case KeptFor::Output: return "a copy: the program returns it and may write to it";
  }
  return "";
}

namespace {

// On a GPU, less than eager saves is saved where that takes little time: a segment of the backward half holds its
// gradients and what it works in besides, which is more than an operator of eager holds.
constexpr int64_t kRoom = 10;         // the part of eager's bytes that is left free
constexpr int64_t kLoadsPerByte = 6;  // the time that a byte may take, in loads of a byte

}  // namespace

SavedValues choose_saved(const Graph& joint, size_t first_tangent, size_t first_gradient, const Limit& limit,
                         const Target& target, const RegionOf& region_of) {
  RecomputeProblem problem =
      make_problem(joint, first_tangent, first_gradient, target, region_of, limit.fraction || limit.bytes);
  const Recomputes as_eager = eager_recomputes(problem);
  const Outcome eager = outcome_of(problem, as_eager);
  const std::optional<int64_t> asked = bytes_of(limit, eager.bytes);
  const int64_t most = std::min(eager.bytes, asked.value_or(INT64_MAX));
  RecomputeChoice choice = choose_recomputes(problem, most);
  if (!asked && target.device == DeviceType::CUDA)
    leave_room(problem, choice, eager.bytes - eager.bytes / kRoom, kLoadsPerByte);
  return Result(problem, std::move(choice)).run(eager, asked);
}

std::string print(const SavedValues& c) {
  std::string out;
  const auto add = [&]<class... T>(fmt::format_string<T...> f, T&&... args) {
    fmt::format_to(std::back_inserter(out), f, std::forward<T>(args)...);
  };
  size_t kept = 0;
  for (const Value* v : c.saved) {
    add("saved %{}", v->id);
    if (kept < c.kept.size() && c.kept[kept].value == v) {
      add(" {} bytes, {}", c.kept[kept].bytes, text_of(c.kept[kept].why));
      ++kept;
    } else {
      add(" 0 bytes, alive");
    }
    out += '\n';
  }
  for (const Node* n : c.recomputed) add_node(out, "recomputed", *n);
  for (const Node* n : c.moved) add_node(out, "moved to the backward", *n);
  add("saved {} bytes, eager {} bytes", c.bytes, c.eager_bytes);
  if (c.limit) add(", limit {} bytes{}", *c.limit, c.reached() ? "" : ": not reached");
  add("\nbackward: loads {:.3f} ms, recomputes {:.3f} ms; eager loads {:.3f} ms\n", c.load_us / 1000,
      c.recompute_us / 1000, c.eager_us / 1000);
  return out;
}

}  // namespace vesta::graph
