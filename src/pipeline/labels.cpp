#include "pipeline/labels.h"

#include <fmt/format.h>

#include <charconv>

namespace vesta::pipeline {
namespace {

constexpr std::string_view kInput = "<input ", kLine = "<line ";

template <class F>
void for_each_device(graph::Graph& g, F&& fn) {
  for (graph::Input& i : g.inputs) fn(i.value->type.device);
  g.for_each_node([&](graph::Node* n) {
    for (size_t i = 0; i < n->args().size(); ++i) {
      const auto* device = std::get_if<Device>(&n->args()[i]);
      if (!device) continue;
      Device changed = *device;
      fn(changed);
      if (changed != *device) g.set_arg(n, i, changed);
    }
    for (graph::Value* v : n->results)
      if (v) fn(v->type.device);
  });
  for (graph::Output& o : g.outputs) fn(o.type.device);
}

template <class F>
void for_each_device(artifact::Artifact& a, F&& fn) {
  fn(a.device);
  for (artifact::InputDesc& i : a.inputs) fn(i.type.device);
  for (artifact::Buffer& b : a.buffers) fn(b.type.device);
  for (auto* steps : {&a.prepacked, &a.steps}) {
    for (artifact::Step& s : *steps) {
      auto* e = std::get_if<artifact::Extern>(&s);
      if (!e) continue;
      for (artifact::Arg& arg : e->args)
        if (auto* device = std::get_if<Device>(&arg.value)) fn(*device);
    }
  }
  for (artifact::Output& o : a.outputs) fn(o.type.device);
  for (artifact::Artifact& entry : a.entries) for_each_device(entry, fn);
}

}  // namespace

void Labels::take_index(Device& device) {
  if (device.index < 0) return;  // a CPU, or the current device
  int8_t n = 0;
  for (const Device& known : devices_) {
    if (known.type != device.type) continue;
    if (known == device) {
      device.index = n;
      return;
    }
    ++n;
  }
  devices_.push_back(device);
  device.index = n;
}

void Labels::bind(Device& device) const {
  int8_t left = device.index;
  for (const Device& known : devices_) {
    if (known.type != device.type || left-- != 0) continue;
    device.index = known.index;
    return;
  }
}

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
  for_each_device(g, [&](Device& device) { labels.take_index(device); });
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

// The line for which a node's source stands; nullptr: it stands for none.
const std::string* Labels::line(std::string_view text) const {
  size_t number = 0;
  if (!text.starts_with(kLine)) return nullptr;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + kLine.size(), last, number);
  return error == std::errc() && end + 1 == last && number < lines_.size() ? &lines_[number] : nullptr;
}

bool Labels::same_line(std::string_view a, std::string_view b) const {
  const std::string *x = line(a), *y = line(b);
  return x && y ? *x == *y : a == b;
}

void Labels::restore_texts(artifact::Artifact& a) const {
  const auto restore_line = [&](artifact::Step& s) {
    if (auto* e = std::get_if<artifact::Extern>(&s)) e->source = restore(e->source);
    if (auto* c = std::get_if<artifact::Call>(&s)) c->source = restore(c->source);
  };
  for (artifact::InputDesc& i : a.inputs) i.name = restore(i.name);
  for (artifact::Guard& g : a.guards) g.text = restore(g.text);
  for (auto* steps : {&a.prepacked, &a.steps})
    for (artifact::Step& s : *steps) restore_line(s);
  for (artifact::Artifact& entry : a.entries) restore_texts(entry);
}

void Labels::restore(artifact::Artifact& a) const {
  restore_texts(a);
  for_each_device(a, [&](Device& device) { bind(device); });
}

}  // namespace vesta::pipeline
