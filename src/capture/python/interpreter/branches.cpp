#include "capture/python/interpreter/branches.h"

#include <string_view>
#include <unordered_set>
#include <vector>

#include "capture/python/interpreter/opcodes.h"

namespace vesta::capture {
namespace {

struct Instruction {
  std::string_view name;  // empty: past the end
  int oparg = 0;
  int next = 0;  // the position after it and its caches
};

class Code {
 public:
  explicit Code(PyCodeObject* code) : bytes_(pristine_code(code, &units_)) {}

  Instruction at(int position) const {
    constexpr int extended_arg = opcode_of("EXTENDED_ARG");
    int oparg = 0;
    for (; bytes_ && position >= 0 && position < units_; ++position) {
      const int opcode = bytes_[2 * position];
      oparg = oparg << 8 | bytes_[2 * position + 1];
      if (opcode == extended_arg) continue;
      const OpcodeRow& row = opcode_table[opcode];
      return {row.name ? row.name : "", oparg, position + 1 + row.caches};
    }
    return {};
  }

  // Whether the code from here on raises an exception, whichever way it branches. It may not go back or return.
  bool raises(int position) const {
    std::vector<int> open{position};
    std::unordered_set<int> seen;
    while (!open.empty()) {
      int at = open.back();
      open.pop_back();
      for (;;) {
        if (!seen.insert(at).second) break;
        const Instruction i = this->at(at);
        if (i.name == "RAISE_VARARGS") break;
        for (const std::string_view end : {"BACKWARD", "RETURN", "FOR_ITER", "SEND", "YIELD", "RERAISE"})
          if (i.name.empty() || i.name.find(end) != std::string_view::npos) return false;
        at = i.name == "JUMP_FORWARD" ? i.next + i.oparg : i.next;
        if (i.name.find("JUMP_") != std::string_view::npos && i.name.find("_IF_") != std::string_view::npos)
          open.push_back(i.next + i.oparg);
      }
    }
    return true;
  }

 private:
  int units_ = 0;
  const unsigned char* bytes_;
};

}  // namespace

std::optional<bool> truth_that_goes_on(PyCodeObject* code, int position) {
  const Code read(code);
  Instruction i = read.at(position);
  if (i.name == "TO_BOOL") i = read.at(i.next);
  const bool by_true = i.name == "POP_JUMP_IF_TRUE" || i.name == "POP_JUMP_FORWARD_IF_TRUE";
  const bool by_false = i.name == "POP_JUMP_IF_FALSE" || i.name == "POP_JUMP_FORWARD_IF_FALSE";
  if (!by_true && !by_false) return std::nullopt;
  const bool jump_raises = read.raises(i.next + i.oparg), next_raises = read.raises(i.next);
  if (jump_raises == next_raises) return std::nullopt;
  return by_true == next_raises;
}

}  // namespace vesta::capture
