// Small artifacts made by hand. Their kernels are text, which is interpreted.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <utility>
#include <vector>

#include "runtime/executable.h"

namespace vesta::testing {

using artifact::Artifact;
using artifact::Role;
using artifact::Size;

inline Size constant(int64_t v) { return {{{Size::Code::Constant, v}}}; }
inline Size symbol(int64_t i) { return {{{Size::Code::Symbol, i}}}; }
inline Size times(Size a, int64_t c) {
  a.steps.push_back({Size::Code::Constant, c});
  a.steps.push_back({Size::Code::Mul});
  return a;
}

inline artifact::TensorDesc matrix(Size rows, Size columns) {
  artifact::TensorDesc t;
  t.sizes = {rows, columns};
  t.strides = {columns, constant(1)};
  return t;
}

inline artifact::View whole(int buffer) {
  artifact::View v;
  v.buffer = buffer;
  v.whole = true;
  return v;
}

inline int add_buffer(Artifact& a, Role role, artifact::TensorDesc type, int index = -1) {
  artifact::Buffer b;
  b.role = role;
  if (type.sizes[0].is_constant() && type.sizes[1].is_constant()) {
    b.bytes = constant(4 * type.sizes[0].steps[0].value * type.sizes[1].steps[0].value);
  } else {
    b.bytes = times(type.sizes[0], 4);
    b.bytes.steps.insert(b.bytes.steps.end(), type.sizes[1].steps.begin(), type.sizes[1].steps.end());
    b.bytes.steps.push_back({Size::Code::Mul});
  }
  b.type = std::move(type);
  b.input = role == Role::Input ? index : -1;
  b.output = role == Role::Output ? index : -1;
  b.first_step = 0;
  b.last_step = 100;
  a.buffers.push_back(std::move(b));
  a.arena.offsets.push_back(-1);
  return static_cast<int>(a.buffers.size()) - 1;
}

// out[i] = 2 * in[i] + 1 over all elements; an item is a line of s1 elements.
inline const auto twice_plus_one =
    std::make_shared<machine::Object>(machine::Object{machine::Form::Text, "twice_plus_one",
                                                      R"(kernel
size s0
size s1
range p0 parallel s0
range i0 inner s1
buffer b0 f32 read
buffer b1 f32 write
stage loop
  %0 = load f32 b0[s1*p0 + i0]
  %1 = const f32 2
  %2 = mul f32 %0 %1
  %3 = const f32 1
  %4 = add f32 %2 %3
  store f32 b1[s1*p0 + i0] %4
)"});

inline artifact::Launch launch(int from, int to, Size items, Size columns) {
  artifact::Launch l;
  l.object = twice_plus_one;
  l.name = "twice_plus_one";
  l.buffers = {from, to};
  l.access = {artifact::kReads, artifact::kWrites};
  l.offsets = {constant(0), constant(0)};
  l.sizes = {items, std::move(columns)};
  l.items = std::move(items);
  l.scratch = constant(0);
  l.item_cost = constant(10);
  return l;
}

inline artifact::Output fresh(int buffer) {
  artifact::Output o;
  o.view = whole(buffer);
  return o;
}

inline Artifact pointwise(bool dynamic) {
  Artifact a;
  Size rows = dynamic ? symbol(0) : constant(4);
  a.is_static = !dynamic;
  if (dynamic) {
    a.symbols = {{0, 0, false}};
    a.guards = {{symbol(0), artifact::Relation::AtLeast, constant(2), "s0 >= 2"}};
  }
  a.inputs = {{matrix(rows, constant(8)), false, "x"}};
  const int x = add_buffer(a, Role::Input, matrix(rows, constant(8)), 0);
  const int t = add_buffer(a, Role::Arena, matrix(rows, constant(8)));
  const int y = add_buffer(a, Role::Output, matrix(rows, constant(8)), 0);
  a.arena.offsets[t] = 0;
  a.arena.kept_bytes = 4 * 8 * 4;
  a.steps = {launch(x, t, rows, constant(8)), launch(t, y, rows, constant(8))};
  a.outputs = {fresh(y)};
  return a;
}

// One 4x8 input; 2 * x + 1 at `offset` of the arena.
struct InArena {
  Artifact a;
  artifact::TensorDesc type = matrix(constant(4), constant(8));
  int x = -1, twice = -1;

  explicit InArena(int64_t offset = 0) {
    a.is_static = true;
    a.inputs = {{type, false, "x"}};
    x = add_buffer(a, Role::Input, type, 0);
    twice = add_buffer(a, Role::Arena, type);
    a.arena.offsets[twice] = offset;
    a.arena.kept_bytes = offset + 128;
    a.steps = {launch(x, twice, constant(4), constant(8))};
  }
};

inline at::Tensor run_one(const runtime::Executable& e, std::vector<at::Tensor> inputs) {
  std::vector<c10::IValue> out;
  e.run(inputs, {}, out);
  return out.at(0).toTensor();
}

}  // namespace vesta::testing
