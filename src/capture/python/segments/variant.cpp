#include "capture/python/segments/variant.h"

#include <algorithm>

#include "base/events.h"

namespace vesta::capture {

std::vector<std::vector<Object>*> Variant::holders() {
  std::vector<std::vector<Object>*> all{&epilogue.kept, &constants};
  guards.add_holders(all);
  return all;
}

namespace {

// The variant's calls run in another tier from now on.
void record_tier(const Variant& v, const char* text) {
  if (!events::is_on()) return;
  events::Ids ids = events::current();
  ids.segment = v.segment;
  ids.variant = v.id;
  const events::Within within(ids);
  events::record(events::Type::Tier, v.name, text);
}

}  // namespace

bool Variant::take_compiled() {
  if (!finish_compile(graph)) return false;
  report.pending = false;
  report.compiled = graph.report;
  record_tier(*this, graph.report.kernels.empty() ? "1: calls into ATen" : "2: machine code");
  return true;
}

bool is_early_ready(Variant& v) {
  const bool new_now = v.graph.early && v.graph.early->pending;
  if (is_lost(v.graph) || !finish_early(v.graph)) return false;
  if (new_now) record_tier(v, "1: calls into ATen");
  return true;
}

bool runs_early(Variant& v) { return is_early_ready(v) && v.turns.next() == Tier::Calls; }

void Variant::let_go() {
  watched = Watched(holders());
  for (const Reconstruction& r : epilogue.reconstructions)
    if (r.object && watched.contains(r.object) &&
        std::find(epilogue.watched.begin(), epilogue.watched.end(), r.object) == epilogue.watched.end())
      epilogue.watched.push_back(r.object);
}

}  // namespace vesta::capture
