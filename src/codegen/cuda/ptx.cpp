#include "codegen/cuda/ptx.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace vesta::codegen {
namespace {

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }

// Splits a text into names and the text between them, and calls fn(piece, is_name) for each. Registers and directives
// do not count as names.
template <class F>
void for_each_piece(std::string_view text, F&& fn) {
  size_t from = 0;
  for (size_t i = 0; i < text.size();) {
    if (!in_name(text[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size() && in_name(text[end])) ++end;
    const char before = i > 0 ? text[i - 1] : ' ';
    if (before != '.' && before != '%' && !std::isdigit(static_cast<unsigned char>(text[i]))) {
      fn(text.substr(from, i - from), false);
      fn(text.substr(i, end - i), true);
      from = end;
    }
    i = end;
  }
  fn(text.substr(from), false);
}

// A top-level directive of the module: a kernel, a function or a variable.
struct Item {
  std::string_view text;
  std::string_view name;
  std::vector<std::string_view> names;  // the names in it, in order
  bool entry = false;
  bool function = false;  // a function or an entry
};

// The declared name: a function's stands before its parameters, a variable's is the last before its size.
std::string_view declared(std::string_view text, bool function) {
  std::string_view found, last;
  bool done = false;
  size_t depth = 0;
  const size_t body = text.find_first_of(function ? "{;" : "[=;");
  for_each_piece(text.substr(0, body), [&](std::string_view piece, bool is_name) {
    if (done) return;
    if (is_name) {
      if (depth == 0) found = last = piece;
      return;
    }
    for (const char c : piece) {
      if (c == '(' && depth++ == 0 && !last.empty()) done = true;
      if (c == ')') --depth;
    }
  });
  return found;
}

// Comments are removed because they number calls over the whole module. No string in PTX contains two slashes.
std::string without_comments(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t comment = std::min(text.find("//", at), text.size());
    out += text.substr(at, comment - at);
    at = std::min(text.find('\n', comment), text.size());
  }
  return out;
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  return s;
}

struct Module {
  std::string_view head;  // version, target, size of addresses
  std::vector<Item> items;
};

Module parse(std::string_view ptx) {
  Module m;
  constexpr std::string_view kLast = ".address_size";
  const size_t at = ptx.find(kLast);
  VESTA_CHECK(at != std::string_view::npos, "PTX without a header");
  const size_t end = std::min(ptx.find('\n', at), ptx.size());
  m.head = ptx.substr(0, end);
  size_t start = end;
  int depth = 0;
  for (size_t i = end; i < ptx.size(); ++i) {
    if (ptx[i] == '{') ++depth;
    if (ptx[i] == '}') --depth;
    if (depth > 0 || (ptx[i] != ';' && ptx[i] != '}')) continue;
    const std::string_view text = trimmed(ptx.substr(start, i + 1 - start));
    const std::string_view head = text.substr(0, text.find_first_of("{;"));
    const bool entry = head.find(".entry ") != std::string_view::npos;
    const bool function = entry || head.find(".func ") != std::string_view::npos;
    if (ptx[i] == '}' && !function) continue;  // it ends a variable's values
    Item item{text, declared(text, function), {}, entry, function};
    for_each_piece(text, [&](std::string_view piece, bool is_name) {
      if (is_name) item.names.push_back(piece);
    });
    m.items.push_back(std::move(item));
    start = i + 1;
  }
  return m;
}

bool numbered(std::string_view name, std::string_view before, size_t* rest) {
  if (!name.starts_with(before)) return false;
  *rest = before.size();
  while (*rest < name.size() && std::isdigit(static_cast<unsigned char>(name[*rest]))) ++*rest;
  return true;
}

// Labels and local memory contain the number of their function; strings of messages have numbers of their own.
std::string renumbered(std::string_view text, std::unordered_map<std::string_view, size_t>& strings) {
  std::string out;
  for_each_piece(text, [&](std::string_view piece, bool is_name) {
    size_t rest = 0;
    if (!is_name) {
      out += piece;
    } else if (numbered(piece, "$L__BB", &rest)) {
      out += "$L__BB" + std::string(piece.substr(rest));
    } else if (numbered(piece, "__local_depot", &rest)) {
      out += "__local_depot" + std::string(piece.substr(rest));
    } else if (piece == "$str" || piece.starts_with("$str$")) {
      out += "$str$" + std::to_string(strings.emplace(piece, strings.size()).first->second);
    } else {
      out += piece;
    }
  });
  return out;
}

// The module of one entry. Its functions and variables stand in the order of their use, because their order in the
// whole module depends on all entries.
class Part {
 public:
  Part(const Module& module, const std::unordered_map<std::string_view, size_t>& named)
      : module_(module), named_(named), taken_(module.items.size(), 0) {}

  std::string text(size_t entry) {
    take(entry);
    std::unordered_map<std::string_view, size_t> strings;
    std::string out(module_.head);
    for (const auto* items : {&variables_, &functions_})
      for (const size_t i : *items) out += "\n" + renumbered(module_.items[i].text, strings);
    return out + "\n";
  }

 private:
  void take(size_t i) {
    if (std::exchange(taken_[i], 1)) return;
    const Item& item = module_.items[i];
    for (const std::string_view name : item.names)
      if (const auto it = named_.find(name); it != named_.end() && !module_.items[it->second].entry) take(it->second);
    (item.function ? functions_ : variables_).push_back(i);
  }

  const Module& module_;
  const std::unordered_map<std::string_view, size_t>& named_;
  std::vector<char> taken_;
  std::vector<size_t> variables_, functions_;
};

}  // namespace

std::vector<std::string> split_ptx(std::string_view ptx, std::span<const std::string> entries) {
  const std::string plain = without_comments(ptx);
  const Module module = parse(plain);
  std::unordered_map<std::string_view, size_t> named;
  for (size_t i = 0; i < module.items.size(); ++i) named.emplace(module.items[i].name, i);
  std::vector<std::string> out;
  for (const std::string& entry : entries) {
    const auto it = named.find(entry);
    VESTA_CHECK(it != named.end() && module.items[it->second].entry, "PTX without the kernel {}", entry);
    out.push_back(Part(module, named).text(it->second));
  }
  return out;
}

}  // namespace vesta::codegen
