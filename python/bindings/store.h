#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "vesta/report.h"

namespace vesta::python {

// None, or the nearest entry of the folder and its differences: (entry, [(field, was, now, line)]).
pybind11::object why_miss(const CompileReport& report, const std::string& folder);
// cache_folder(), cache_entries(), cache_trim(), compare_entries() and host_target(): what the command `vesta` shows.
void add_store(pybind11::module_& m);

}  // namespace vesta::python
