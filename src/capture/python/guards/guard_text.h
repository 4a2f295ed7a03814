// Guards in words, for reports, logs and errors. No Python code of the program runs.
#pragma once

#include <string>

#include "capture/python/guards/guard_program.h"
#include "vesta/capture_report.h"

namespace vesta::capture {

std::string guard_text(const GuardProgram& program, const Guard& g);
// The kind of a guard as reports name it.
const char* kind_of(Check c);
// How a call differs from the trace, by what check() returned and the registers of that check.
CaptureDifference difference(const GuardProgram& program, int failed, const Registers& registers);

}  // namespace vesta::capture
