// Which function a loaded shared library calls under an imported name: found and replaced in the library's relocation
// tables (System V ABI, "Procedure Linkage Table"). A replacement concerns this one library in this one process, and
// stays until the process ends. No other memory of the library is written, and no file.
#pragma once

#include <link.h>

#include <string_view>

namespace vesta::capture {

enum class Redirected {
  Done,
  NoLibrary,    // no loaded library has such a name
  NotImported,  // the library does not take the function from another one
  ReadOnly,     // the page of the table cannot be made writable
};

// In the first loaded library whose path contains `library`.
Redirected redirect_import(std::string_view library, std::string_view function, void* replacement);
// In this library. On ReadOnly some slots may have been written: a replacement must work beside the original.
Redirected redirect_import(const dl_phdr_info& library, std::string_view function, void* replacement);

}  // namespace vesta::capture
