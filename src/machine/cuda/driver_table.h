// Functions of NVIDIA's driver that one file calls, looked up together. A file that needs functions which older drivers
// lack has a table of its own, so that a missing function refuses what that file does and nothing else.
#pragma once

#include <string>

#include "machine/cuda/driver.h"
#include "machine/cuda/shared_library.h"

namespace vesta::machine {

template <class Functions>
struct DriverTable {
  Functions f;
  const Driver* driver = nullptr;  // null: the table cannot be used, because of `problem`
  std::string problem;

  void require(int status, const char* what) const { driver->require(status, what); }
};

// Made once for each table, and never destroyed: graphs may end while the process does. `find` looks up each function.
template <class Functions>
const DriverTable<Functions>& driver_table(void (*find)(Symbols&, Functions&)) {
  auto& t = *new DriverTable<Functions>;
  const Driver* const driver = Driver::get(&t.problem);
  void* const library = driver ? open_library(kDriverNames, {}, &t.problem) : nullptr;
  if (!library) return t;
  Symbols symbols(library);
  find(symbols, t.f);
  if (symbols.missing().empty())
    t.driver = driver;
  else
    t.problem = "the driver has no " + symbols.missing();
  return t;
}

}  // namespace vesta::machine
