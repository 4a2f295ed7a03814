// Lists the buffers and sizes that a step uses, and the kernels of an artifact. Changes nothing.
#pragma once

#include "artifact/artifact.h"

namespace vesta::artifact {

// Calls f(view) for each view that the step reads.
template <class F>
void for_each_view(const Step& step, F&& f) {
  const auto all = [&](const std::vector<View>& views) {
    for (const View& v : views) f(v);
  };
  if (const auto* e = std::get_if<Extern>(&step)) {
    for (const Arg& a : e->args) {
      if (const auto* v = std::get_if<View>(&a.value)) f(*v);
      if (const auto* list = std::get_if<std::vector<View>>(&a.value)) all(*list);
    }
  } else if (const auto* c = std::get_if<Call>(&step)) {
    all(c->inputs);
  } else if (const auto* c = std::get_if<CopyBack>(&step)) {
    f(c->from);
  }
}

// Calls f(buffer, access, is_kernel) for each buffer of the step; access is kReads, kWrites or both, as the step
// declares.
template <class F>
void for_each_use(const Step& step, F&& f) {
  for_each_view(step, [&](const View& v) {
    if (v.buffer >= 0) f(v.buffer, kReads, false);
  });
  const auto write = [&](const std::vector<int>& results) {
    for (const int b : results)
      if (b >= 0) f(b, kWrites, false);
  };
  if (const auto* l = std::get_if<Launch>(&step)) {
    for (size_t i = 0; i < l->buffers.size(); ++i)
      f(l->buffers[i], static_cast<uint8_t>(l->access.empty() ? kReads | kWrites : l->access[i]), true);
  } else if (const auto* e = std::get_if<Extern>(&step)) {
    write(e->results);
  } else if (const auto* c = std::get_if<Call>(&step)) {
    write(c->results);
  } else if (const auto* a = std::get_if<Assert>(&step)) {
    f(a->flag, kReads, true);
  }
}

// The buffers that must have memory when the step begins: all except those that it makes.
template <class F>
void for_each_needed(const Step& step, F&& f) {
  for_each_use(step, [&](int b, uint8_t access, bool is_kernel) {
    if (is_kernel || access & kReads) f(b);
  });
}

// Calls f(size) for each size of the step itself, not for those of its buffers.
template <class F>
void for_each_size(const Step& step, F&& f) {
  const auto all = [&](const std::vector<Size>& sizes) {
    for (const Size& s : sizes) f(s);
  };
  for_each_view(step, [&](const View& v) {
    if (v.buffer < 0 || v.whole) return;
    all(v.sizes), all(v.strides), f(v.offset);
  });
  if (const auto* l = std::get_if<Launch>(&step)) {
    all(l->offsets), all(l->sizes);
    f(l->items), f(l->scratch), f(l->item_cost);
  } else if (const auto* e = std::get_if<Extern>(&step)) {
    for (const Arg& a : e->args) {
      if (const auto* s = std::get_if<Size>(&a.value)) f(*s);
      if (const auto* list = std::get_if<std::vector<Size>>(&a.value)) all(*list);
    }
  }
}

// Calls f(launch) for each launch of the artifact: in `prepacked`, in its steps and in its entries.
template <class F>
void for_each_launch(const Artifact& a, F&& f) {
  for (const auto* steps : {&a.prepacked, &a.steps})
    for (const Step& s : *steps)
      if (const auto* l = std::get_if<Launch>(&s)) f(*l);
  for (const Artifact& entry : a.entries) for_each_launch(entry, f);
}

}  // namespace vesta::artifact
