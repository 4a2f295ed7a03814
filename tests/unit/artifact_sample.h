// An artifact with every kind of part.
#pragma once

#include "artifact/artifact.h"

namespace vesta::testing {

using artifact::Size;

inline Size constant(int64_t v) { return {{{Size::Code::Constant, v}}}; }
inline Size symbol(int64_t i) { return {{{Size::Code::Symbol, i}}}; }

inline artifact::Artifact sample() {
  ExprContext context;
  const Expr s0 = context.size_symbol("s0", 8);
  const Size padded = compile(floordiv(s0 * Expr(3) + Expr(7), Expr(8)), [](Expr) { return 0; });

  artifact::Artifact a;
  a.inputs = {{{DType::F32, {}, {symbol(0), constant(4)}, {constant(4), constant(1)}}, false, "x"},
              {{DType::BF16, {}, {constant(4)}, {constant(1)}}, true, "w"}};
  a.symbols = {{0, 0, false}, {-1, 2, false}};
  a.guards = {{symbol(0), artifact::Relation::AtLeast, constant(2), "s0 >= 2 (model.py:3)"}};
  a.facts.same = {{0, 1}};
  a.facts.offsets = {{1, 16}};
  a.buffers.resize(2);
  a.buffers[0] = {artifact::Role::Input, a.inputs[0].type, 0, -1, 0, 1, constant(0)};
  a.buffers[1] = {artifact::Role::Arena, {DType::F32, {}, {padded}, {constant(1)}}, -1, -1, 0, 2, padded};
  a.arena.kept_bytes = 128;
  a.arena.offsets = {-1, 0};
  artifact::Launch launch;
  launch.object = std::make_shared<machine::Object>(machine::Object{machine::Form::Text, "vesta_text_1", "kernel"});
  launch.name = "add";
  launch.buffers = {0, 1};
  launch.access = {artifact::kReads, artifact::kWrites};
  launch.offsets = {constant(0), constant(64)};
  launch.sizes = {symbol(0)};
  launch.items = symbol(0);
  launch.scratch = constant(0);
  launch.item_cost = constant(5);
  artifact::View part;
  part.buffer = 1;
  part.sizes = {constant(2)};
  part.strides = {constant(1)};
  part.offset = constant(1);
  artifact::Extern call;
  call.op = "aten::softmax.int";
  call.args = {{part}, {constant(-1)}, {artifact::NoneArg{}}, {DType::F32}, {std::string("mean")}, {true}, {0.5}};
  call.results = {1, -1};
  a.steps = {launch, call, artifact::CopyBack{part, 0}};
  artifact::Output fresh, view, integer;
  fresh.view.buffer = 1;
  fresh.view.whole = true;
  view.kind = artifact::OutputKind::InputView;
  view.alias = 0;
  view.type = {DType::F32, {}, {constant(2)}, {constant(1)}};
  view.storage_offset = constant(3);
  view.absolute_offset = true;
  integer.kind = artifact::OutputKind::Integer;
  integer.integer = symbol(0);
  a.outputs = {fresh, view, integer};
  return a;
}

}  // namespace vesta::testing
