#include "capture/python/segments/hints.h"

namespace vesta::capture {
namespace {

struct Row {
  std::string_view part;  // of the reason
  std::string_view hint;
};

// The first that fits.
constexpr Row kRows[] = {
    {"calls print",
     "print after the compiled function has returned, or leave the break: both sides of it are compiled"},
    {"needs the value of a tensor",
     "decide on tensors (torch.where, masks), or take the value outside of the compiled function"},
    {"is made a string", "show its shape or dtype, which are known, or make the text outside of the compiled function"},
    {"compiling is disabled", "that is what disable asks for; call it outside of the compiled function"},
    {"marked with disable", "that is what disable asks for; call it outside of the compiled function"},
    {"iterator that was there before", "pass a list or a tuple, or make the iterator inside of the compiled function"},
    {"which Vesta does not know", "call it outside of the compiled function; what comes before and after is compiled"},
    {"that Vesta does not know", "call it outside of the compiled function; what comes before and after is compiled"},
    {"that is another in each call",
     "pass the number to operators of tensors, or use it outside of the compiled function"},
    {"enters PyTorch's compiler", "call it outside of the compiled function"},
    {"imports", "import at the top of the module"},
    {"a class that a function made", "make the class outside of the compiled function"},
    {"a class that the function makes", "make the class outside of the compiled function"},
    {"sets an attribute of a class", "keep it on an instance"},
    {"raises an exception", "make a new exception object where it is raised"},
    {"very many items", "give a tensor in place of a long list"},
    {"coroutine", "compile the functions that it calls"},
};

}  // namespace

std::string hint_for(std::string_view reason) {
  for (const Row& row : kRows)
    if (reason.find(row.part) != std::string_view::npos) return std::string(row.hint);
  return {};
}

}  // namespace vesta::capture
