// Imports.
#include "capture/python/breaks/families.h"

namespace vesta::capture {
namespace {

constexpr BreakRow kRows[] = {
    {Break::ModuleImported, "module-imported", "imports a module that is not loaded",
     "An import runs the module's code, which may write anywhere. After the first call the module is loaded, and the "
     "function is traced again.",
     "import the module at the top of the file", Then::TraceEachTime},
    {Break::NameImported, "name-imported", "imports a name that the module does not have yet",
     "The import may load a submodule. After the first call it is loaded, and the function is traced again.",
     "import the name at the top of the file", Then::TraceEachTime},
    {Break::ModuleNotInTable, "module-not-in-table", "uses a module that is not in sys.modules",
     "A guard names a module by its place in sys.modules.", "import the module in the usual way"},
};

}  // namespace

std::span<const BreakRow> imports_rows() { return kRows; }

}  // namespace vesta::capture
