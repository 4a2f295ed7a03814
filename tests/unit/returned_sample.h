// An artifact whose steps return integers, which later steps take for sizes. Its kernels are text.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "artifact_sample.h"

namespace vesta::testing {

// Constants of constants: a static artifact has no other sizes.
inline Size plus(Size a, const Size& b) {
  if (a.is_constant() && b.is_constant()) return constant(a.steps[0].value + b.steps[0].value);
  a.steps.insert(a.steps.end(), b.steps.begin(), b.steps.end());
  a.steps.push_back({Size::Code::Add});
  return a;
}
inline Size times(Size a, const Size& b) {
  if (a.is_constant() && b.is_constant()) return constant(a.steps[0].value * b.steps[0].value);
  a.steps.insert(a.steps.end(), b.steps.begin(), b.steps.end());
  a.steps.push_back({Size::Code::Mul});
  return a;
}

inline artifact::View whole_of(int buffer) { return {buffer, DType::F32, {}, {}, {}, true}; }

inline artifact::Output fresh_of(int buffer) {
  artifact::Output o;
  o.view = whole_of(buffer);
  return o;
}

inline artifact::TensorDesc rows_of_4(const Size& rows) {
  return {DType::F32, {}, {rows, constant(4)}, {constant(4), constant(1)}};
}

// to = 2 * from + 1, of `rows` rows of 4.
inline artifact::Launch twice_plus_one_of(int from, int to, const Size& rows) {
  static const auto object =
      std::make_shared<machine::Object>(machine::Object{machine::Form::Text, "twice plus one", R"(kernel
size s0
range p0 parallel s0
range i0 inner 4
buffer b0 f32 read
buffer b1 f32 write
stage loop
  %0 = load f32 b0[4*p0 + i0]
  %1 = const f32 2
  %2 = mul f32 %0 %1
  %3 = const f32 1
  %4 = add f32 %2 %3
  store f32 b1[4*p0 + i0] %4
)"});
  artifact::Launch l;
  l.object = object;
  l.name = "twice_plus_one";
  l.buffers = {from, to};
  l.access = {artifact::kReads, artifact::kWrites};
  l.offsets = {constant(0), constant(0)};
  l.sizes = {rows};
  l.items = rows;
  l.scratch = constant(0);
  l.item_cost = constant(10);
  return l;
}

// Results that are integers: `symbols`.
inline artifact::Extern integers_of(std::string op, std::vector<artifact::Arg> args, std::vector<int> symbols) {
  artifact::Extern e;
  e.op = std::move(op);
  e.args = std::move(args);
  e.results.assign(symbols.size(), -1);
  e.integers = std::move(symbols);
  return e;
}

inline artifact::Extern tensor_of(std::string op, std::vector<artifact::Arg> args, int buffer) {
  artifact::Extern e;
  e.op = std::move(op);
  e.args = std::move(args);
  e.results = {buffer};
  return e;
}

inline int add_buffer_of(artifact::Artifact& a, artifact::Role role, artifact::TensorDesc type, int index = -1) {
  artifact::Buffer b;
  b.role = role;
  b.bytes = constant(4);
  for (const Size& s : type.sizes) b.bytes = times(b.bytes, s);
  b.type = std::move(type);
  b.input = role == artifact::Role::Input ? index : -1;
  b.output = role == artifact::Role::Output ? index : -1;
  b.first_step = 0;
  a.buffers.push_back(std::move(b));
  a.arena.offsets.push_back(role == artifact::Role::Arena ? 0 : -1);
  return static_cast<int>(a.buffers.size()) - 1;
}

inline void finish_lives(artifact::Artifact& a) {
  for (artifact::Buffer& b : a.buffers) b.last_step = static_cast<int>(a.steps.size()) - 1;
}

// x: [s0, 4], counts: [5]. s1 = counts[0] as item() returns it; s2 is how many rows a tensor of s1 rows has.
// Returns 2 * x[:s1] + 1, 2 * x + 1, 1.5 as often as 2 * s1 + s2 says, s1 * s2 + s0, and a column of the first.
inline artifact::Artifact returning() {
  using artifact::Role;
  artifact::Artifact a;
  const artifact::TensorDesc counts{DType::I64, {}, {constant(5)}, {constant(1)}};
  a.inputs = {{rows_of_4(symbol(0)), false, "x"}, {counts, false, "counts"}};
  a.symbols = {{0, 0, false}, {artifact::kReturned, 0, false}, {artifact::kReturned, 0, false}};
  a.guards = {{symbol(0), artifact::Relation::AtLeast, constant(2), "s0 >= 2"}};
  const int x = add_buffer_of(a, Role::Input, rows_of_4(symbol(0)), 0);
  const int n = add_buffer_of(a, Role::Input, counts, 1);
  const int kept = add_buffer_of(a, Role::Arena, rows_of_4(symbol(0)));
  const int some = add_buffer_of(a, Role::Returned, rows_of_4(symbol(1)));
  const int first = add_buffer_of(a, Role::Output, rows_of_4(symbol(1)), 0);
  const int second = add_buffer_of(a, Role::Output, rows_of_4(symbol(0)), 1);
  const Size length = plus(times(constant(2), symbol(1)), symbol(2));
  const int third = add_buffer_of(a, Role::Returned, {DType::F32, {}, {length}, {constant(1)}});
  const artifact::Arg none{artifact::NoneArg{}};
  a.steps = {
      twice_plus_one_of(x, kept, symbol(0)),
      integers_of("aten::item", {{artifact::View{n, DType::I64, {}, {}, constant(0), false}}}, {1}),
      tensor_of("aten::slice_copy.Tensor", {{whole_of(x)}, {constant(0)}, none, {symbol(1)}, {constant(1)}}, some),
      twice_plus_one_of(some, first, symbol(1)),
      integers_of("aten::sym_size.int", {{whole_of(first)}, {constant(0)}}, {2}),
      tensor_of("aten::full", {{std::vector<Size>{length}}, {1.5}, {DType::F32}, none, none, none}, third),
      tensor_of("aten::clone", {{whole_of(kept)}, none}, second),
  };
  finish_lives(a);
  artifact::Output integer, column;
  integer.kind = artifact::OutputKind::Integer;
  integer.integer = plus(times(symbol(1), symbol(2)), symbol(0));
  column.kind = artifact::OutputKind::OutputView;
  column.alias = 0;
  column.type = {DType::F32, {}, {symbol(2)}, {constant(4)}};
  column.storage_offset = constant(1);
  a.outputs = {fresh_of(first), fresh_of(second), fresh_of(third), integer, column};
  return a;
}

// x: [6, 4], counts: [5], which begin with 3. Returns the first result of returning(), which is an entry of it.
inline artifact::Artifact calls_returning() {
  using artifact::Role;
  artifact::Artifact entry = returning();
  entry.outputs.resize(1);
  for (size_t b = 0; b < entry.buffers.size(); ++b)
    if (entry.buffers[b].output > 0) entry.buffers[b].role = Role::Returned, entry.buffers[b].output = -1;
  artifact::Artifact a;
  a.is_static = true;
  a.inputs = entry.inputs;
  a.inputs[0].type = rows_of_4(constant(6));
  const int x = add_buffer_of(a, Role::Input, a.inputs[0].type, 0);
  const int n = add_buffer_of(a, Role::Input, a.inputs[1].type, 1);
  const int y = add_buffer_of(a, Role::Output, rows_of_4(constant(3)), 0);
  artifact::Call call;
  call.entry = 0;
  call.inputs = {whole_of(x), whole_of(n)};
  call.results = {y};
  a.steps = {call};
  a.outputs = {fresh_of(y)};
  a.entries = {entry};
  finish_lives(a);
  return a;
}

}  // namespace vesta::testing
