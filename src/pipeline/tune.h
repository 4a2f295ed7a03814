// The schedules of a plan's kernels, chosen by how long a GPU takes for them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "codegen/codegen.h"
#include "machine/cuda/meter.h"
#include "schedule/plan.h"
#include "vesta/report.h"

namespace vesta::pipeline {

struct TuneOptions {
  double seconds = 0;               // after which no more kernels are begun
  std::function<double()> clock;    // seconds
  codegen::CompileOptions compile;  // its store keeps the choices, too
};

struct Tuned {
  TuningReport report;
  bool finished = true;  // no kernel was left for lack of time
  // Of chosen kernels, so that they are not compiled again while this lives.
  std::vector<std::shared_ptr<const machine::Object>> code;
};

// Replaces kernels of the plan by alternatives of theirs (schedule/cuda/alternatives.h) that are faster under the hints
// of the sizes, by more than what measuring is off. The heaviest kernels come first. What the store knows is not
// measured again. Throws what compile() and the meter throw; the plan is then as good as it was.
Tuned tune(schedule::Plan& plan, const Target& target, const TuneOptions& options, machine::Meter& meter);

// The same for a plan of a GPU of this machine, whose driver it asks. Where it cannot be asked, the report says why.
Tuned tune_here(schedule::Plan& plan, const Target& target, double seconds, const codegen::CompileOptions& compile);

}  // namespace vesta::pipeline
