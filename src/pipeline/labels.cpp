#include "pipeline/labels.h"

#include <fmt/format.h>

#include <charconv>

namespace vesta::pipeline {
namespace {

constexpr std::string_view kInput = "<input ", kLine = "<line ";

}  // namespace

Labels Labels::take(graph::Graph& g) {
  Labels labels;
  for (graph::Input& i : g.inputs) {
    labels.inputs_.push_back(std::move(i.name));
    i.name = fmt::format("{}{}>", kInput, labels.inputs_.size() - 1);
  }
  auto take_line = [&](std::string& source) {
    if (source.empty()) return;
    labels.lines_.push_back(std::move(source));
    source = fmt::format("{}{}>", kLine, labels.lines_.size() - 1);
  };
  g.for_each_node([&](graph::Node* n) { take_line(n->source); });
  for (graph::Guard& guard : g.guards) take_line(guard.source);
  g.renumber();
  return labels;
}

std::string Labels::restore(std::string_view text) const {
  std::string out;
  size_t from = 0;
  for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    for (const auto& [begin, list] : {std::pair(kInput, &inputs_), std::pair(kLine, &lines_)}) {
      if (!text.substr(at).starts_with(begin)) continue;
      size_t number = 0;
      const char* last = text.data() + text.size();
      const auto [end, error] = std::from_chars(text.data() + at + begin.size(), last, number);
      if (error != std::errc() || end == last || *end != '>' || number >= list->size()) continue;
      out.append(text.substr(from, at - from)).append((*list)[number]);
      from = static_cast<size_t>(end - text.data()) + 1;
    }
  }
  return out.append(text.substr(from));
}

void Labels::restore(artifact::Artifact& a) const {
  for (artifact::InputDesc& i : a.inputs) i.name = restore(i.name);
  for (artifact::Guard& g : a.guards) g.text = restore(g.text);
  for (auto* steps : {&a.derived, &a.steps})
    for (artifact::Step& s : *steps)
      if (auto* e = std::get_if<artifact::Extern>(&s)) e->source = restore(e->source);
}

}  // namespace vesta::pipeline
