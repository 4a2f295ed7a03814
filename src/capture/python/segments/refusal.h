// The exceptions by which a call refuses to run code eagerly. Each function leaves its exception set, or the error that
// kept it from being made.
#pragma once

#include "capture/python/breaks/breaks.h"
#include "vesta/capture_report.h"

namespace vesta::capture {

// With fullgraph=True: for a graph break, and for a frame that is not compiled at all.
void refuse_break(const Reason& why, const UserLine& where);
// With the option `strict`: for code that Vesta leaves to Python.
void refuse_eager(const Reason& why, const UserLine& where);
// With the stance "fail_on_recompile". `name`: of the compiled function.
void refuse_recompile(const std::string& name, const CaptureDifference& why);

}  // namespace vesta::capture
