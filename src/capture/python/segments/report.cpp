// What explain() shows of a captured callable.
#include "artifact/steps.h"
#include "capture/python/guards/guard_text.h"
#include "capture/python/segments/captured.h"
#include "pipeline/backward.h"
#include "runtime/differentiable.h"
#include "runtime/executable.h"

namespace vesta::capture {

namespace {

// As CaptureVariant::tier.
int32_t tier_of(const Variant& v) {
  if (v.graph.pending) return v.graph.early && !v.graph.early->pending && v.turns.next() == Tier::Calls ? 1 : 0;
  if (!v.graph.executable) return 0;
  const CompileReport& r = v.graph.report;
  if (r.tuning && r.tuning->changed + r.tuning->known > 0) return 3;
  return r.kernels.empty() && !v.graph.trains ? 1 : 2;
}

}  // namespace

CaptureReport Captured::report() const {
  CaptureReport r;
  r.name = name_;
  r.only = chosen.only_names();
  if (PyFunction_Check(wrapped_.get()))
    r.where = user_line(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(wrapped_.get())), 0);
  for (const auto& [key, held] : segments_) {
    const Segment& s = *held;
    CaptureSegment out;
    out.where = user_line(key.first, key.second);
    out.offset = key.second;
    out.skipped = s.skipped.text;
    out.failures.assign(s.failures.begin(), s.failures.end());
    if (s.itself.profit.is_active()) out.slower = s.itself.slower;
    if (s.rest.profit.is_active()) out.rest_slower = s.rest.slower;
    out.uncompiled = s.itself.uncompiled;
    out.rest_uncompiled = s.rest.uncompiled;
    if (!s.skipped.empty()) out.skipped_name = row(s.skipped.id).name;
    for (const auto& v : s.variants) {
      if (!v->watched.alive()) continue;
      CaptureVariant c = v->report;
      c.id = v->id;
      c.tier = tier_of(*v);
      c.python_us = v->turns.least_us(Tier::Python);
      c.early_us = v->turns.least_us(Tier::Calls);
      if (c.compiled && v->graph.executable) {
        c.compiled->graphs = v->graph.executable->graphs();
        c.steps = artifact::steps_of(v->graph.executable->artifact());
        c.outputs = static_cast<int>(v->graph.executable->artifact().outputs.size());
        c.output_bytes = artifact::output_bytes_of(v->graph.executable->artifact());
      }
      c.trains = v->graph.trains;
      if (v->graph.training) c.activations = v->graph.training->activations;
      for (const auto& half : v->graph.backward) {
        for (CompileReport& made : half->reports()) c.backward.push_back(std::move(made));
        for (std::string& why : half->failures()) c.backward_failures.push_back(std::move(why));
      }
      for (const Guard& g : v->guards.guards()) {
        CaptureGuard guard;
        guard.text = guard_text(v->guards, g);
        guard.kind = kind_of(g.check);
        const auto failed = v->failures.find(static_cast<int>(&g - v->guards.guards().data()));
        guard.failed = failed == v->failures.end() ? 0 : failed->second;
        if (g.asked_in) guard.where = user_line(g.asked_in, g.position);
        c.guards.push_back(std::move(guard));
      }
      out.variants.push_back(std::move(c));
    }
    r.segments.push_back(std::move(out));
  }
  r.recompiles = recompiles;
  r.fallbacks = eager_calls_.list();
  r.calls = calls.value();
  r.call_us = account.call_us();
  r.aside = aside.calls.value();
  r.hits = hits.value();
  r.misses = misses.value();
  return r;
}

}  // namespace vesta::capture
