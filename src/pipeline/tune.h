// Chooses the schedules of a plan's kernels by measuring them. Chooses nothing else: which operators a kernel computes
// stays as planned.
#pragma once

#include "codegen/codegen.h"
#include "machine/meter.h"
#include "schedule/plan.h"
#include "vesta/report.h"

namespace vesta::pipeline {

struct TuneOptions {
  double seconds = 0;               // after this time no further kernel is begun
  std::function<double()> clock;    // seconds
  codegen::CompileOptions compile;  // its store keeps the choices, too
  bool shows_progress = false;      // in a line of stderr, if that is a terminal
};

struct Tuned {
  TuningReport report;
  bool finished = true;  // no kernel was left for lack of time
  // The code of chosen kernels. While this lives they are not compiled again.
  std::vector<std::shared_ptr<const machine::Object>> code;
};

// Replaces kernels of the plan by alternatives (schedule/alternatives.h) that are faster, for the hints of the sizes
// and by more than the error of measurement. The heaviest kernels come first. Choices in the store are not measured
// again. Throws what compile() and the meter throw; the plan stays valid then.
Tuned tune(schedule::Plan& plan, const Target& target, const TuneOptions& options, machine::Meter& meter);

// The same for a plan for this machine: on a GPU through its driver, on the CPU with the threads of a run. If the
// driver is missing, the report says why.
Tuned tune_here(schedule::Plan& plan, const Target& target, double seconds, const codegen::CompileOptions& compile);

}  // namespace vesta::pipeline
