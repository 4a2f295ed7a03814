#include "schedule/step_equality.h"

#include <algorithm>

#include "graph/node_equality.h"

namespace vesta::schedule {
namespace {

using Pair = std::function<bool(int, int)>;

bool equal(const BufferView& a, const BufferView& b, const Pair& pair) {
  return a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides && a.offset == b.offset &&
         (a.buffer < 0 || b.buffer < 0 ? a.buffer == b.buffer : pair(a.buffer, b.buffer));
}

bool equal(const ExternArg& a, const ExternArg& b, const Pair& pair) {
  if (a.index() != b.index()) return false;
  if (const auto* v = std::get_if<BufferView>(&a)) return equal(*v, std::get<BufferView>(b), pair);
  const auto* list = std::get_if<ViewList>(&a);
  if (!list) return graph::same(std::get<graph::Arg>(a), std::get<graph::Arg>(b));
  return std::ranges::equal(list->views, std::get<ViewList>(b).views,
                            [&](const BufferView& x, const BufferView& y) { return equal(x, y, pair); });
}

bool equal(const KernelStep& a, const KernelStep& b, const Pair& pair) {
  return (a.kernel == b.kernel || a.text == b.text) && a.sizes == b.sizes && a.items == b.items && a.ops == b.ops &&
         std::ranges::equal(a.args, b.args, [&](const KernelArg& x, const KernelArg& y) {
           return x.offset == y.offset && pair(x.buffer, y.buffer);
         });
}

bool equal(const ExternStep& a, const ExternStep& b, const Pair& pair) {
  return a.op == b.op && a.reason == b.reason &&
         std::ranges::equal(a.args, b.args,
                            [&](const ExternArg& x, const ExternArg& y) { return equal(x, y, pair); }) &&
         std::ranges::equal(a.results, b.results, [&](int x, int y) { return x < 0 || y < 0 ? x == y : pair(x, y); });
}

bool equal(const AssertStep& a, const AssertStep& b, const Pair& pair) {
  return a.message == b.message && pair(a.flag, b.flag);
}

bool equal(const CopyStep& a, const CopyStep& b, const Pair& pair) {
  return a.input == b.input && equal(a.from, b.from, pair);
}

}  // namespace

bool equal_steps(const Step& a, const Step& b, const Pair& may_stand_for) {
  if (a.index() != b.index()) return false;
  return std::visit([&](const auto& x) { return equal(x, std::get<std::decay_t<decltype(x)>>(b), may_stand_for); }, a);
}

void for_each_written(const Step& step, const std::function<void(int)>& f) {
  if (const auto* k = std::get_if<KernelStep>(&step)) {
    for (size_t i = 0; i < k->args.size(); ++i)
      if (k->kernel->buffers[i].written) f(k->args[i].buffer);
  } else if (const auto* e = std::get_if<ExternStep>(&step)) {
    for (const int r : e->results)
      if (r >= 0) f(r);
  }
}

Step with_buffers(Step step, const std::function<int(int)>& buffer) {
  const auto rename = [&](int& b) {
    if (b >= 0) b = buffer(b);
  };
  if (auto* k = std::get_if<KernelStep>(&step)) {
    for (KernelArg& a : k->args) rename(a.buffer);
  } else if (auto* e = std::get_if<ExternStep>(&step)) {
    for (ExternArg& a : e->args) {
      if (auto* v = std::get_if<BufferView>(&a)) rename(v->buffer);
      if (auto* list = std::get_if<ViewList>(&a))
        for (BufferView& v : list->views) rename(v.buffer);
    }
    for (int& r : e->results) rename(r);
  } else if (auto* a = std::get_if<AssertStep>(&step)) {
    rename(a->flag);
  } else {
    rename(std::get<CopyStep>(step).from.buffer);
  }
  return step;
}

}  // namespace vesta::schedule
