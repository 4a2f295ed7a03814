// Binds the store for the command `vesta` and for explain. Only trimming writes to a folder.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "vesta/report.h"

namespace vesta::python {

// The nearest entry of the folder and its differences, (entry, [(field, was, now, line)]), or None.
pybind11::object why_miss(const CompileReport& report, const std::string& folder);
// Adds cache_folder(), cache_entries(), cache_trim(), compare_entries() and host_target().
void add_store(pybind11::module_& m);

}  // namespace vesta::python
