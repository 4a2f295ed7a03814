#pragma once

#include <pybind11/pybind11.h>

namespace vesta::python {

// cache_folder(), cache_entries() and cache_trim(), and host_target(): what the command `vesta` shows.
void add_store(pybind11::module_& m);

}  // namespace vesta::python
