#include "graph_steps.h"

#include <pybind11/complex.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "graph/graph.h"
#include "interop/torch_types.h"

namespace py = pybind11;

namespace vesta::python {
namespace {

struct GraphValue {
  uint32_t id;
};

py::object value(const graph::Value* v) { return v ? py::cast(GraphValue{v->id}) : py::none(); }

py::list integers(const std::vector<Expr>& list) {
  py::list out;
  for (const Expr e : list) out.append(hint(e));
  return out;
}

struct ArgObject {
  py::object operator()(graph::None) const { return py::none(); }
  py::object operator()(graph::Value* v) const { return value(v); }  // not const, or the template takes it
  py::object operator()(const graph::ValueList& list) const {
    py::list out;
    for (const graph::Value* v : list) out.append(value(v));
    return out;
  }
  py::object operator()(Expr e) const { return py::int_(hint(e)); }
  py::object operator()(const graph::IntList& list) const { return integers(list); }
  py::object operator()(DType t) const { return py::cast(to_scalar_type(t)); }
  py::object operator()(Device d) const { return py::cast(to_torch(d)); }
  py::object operator()(MemoryFormat f) const { return py::cast(to_torch(f)); }
  py::object operator()(Layout) const { return py::module_::import("torch").attr("strided"); }
  template <class T>
  py::object operator()(const T& plain) const {
    return py::cast(plain);
  }
};

py::tuple node(const graph::Node& n) {
  py::list args, results;
  py::dict keywords;
  for (size_t i = 0; i < n.args().size(); ++i) {
    const graph::SchemaArg& schema = n.op->schema.args.at(i);
    py::object arg = std::visit(ArgObject{}, n.args()[i]);
    if (schema.keyword_only) {
      keywords[py::str(schema.name)] = std::move(arg);
    } else {
      args.append(std::move(arg));
    }
  }
  for (const graph::Value* v : n.results) results.append(v ? py::object(py::int_(v->id)) : py::none());
  return py::make_tuple(n.op->name, std::move(args), std::move(keywords), std::move(results));
}

py::dict output(const graph::Output& o) {
  constexpr const char* kKinds[] = {"fresh", "input", "input_view", "output_view", "integer", "none"};  // OutputKind
  const graph::TensorType& type = o.kind == graph::OutputKind::Fresh ? o.value->type : o.type;
  py::dict out;
  out["kind"] = kKinds[static_cast<size_t>(o.kind)];
  out["value"] = o.value ? py::object(py::int_(o.value->id)) : py::none();
  out["alias"] = o.alias;
  out["sizes"] = integers(type.sizes);
  out["strides"] = integers(type.strides);
  out["dtype"] = py::cast(to_scalar_type(type.dtype));
  out["offset"] = hint(o.storage_offset);
  out["absolute_offset"] = o.absolute_offset;
  out["integer"] = hint(o.integer);
  out["conj"] = o.conj_neg.conj;
  out["neg"] = o.conj_neg.neg;
  out["hidden"] = o.hidden;
  return out;
}

}  // namespace

py::tuple graph_steps(const std::string& text) {
  const std::unique_ptr<graph::Graph> graph = graph::parse(text);
  graph->renumber();  // undefined results have no numbers in the text
  py::list inputs, nodes, mutations, outputs;
  for (const graph::Input& i : graph->inputs) inputs.append(i.value->id);
  graph->for_each_node([&](const graph::Node* n) { nodes.append(node(*n)); });
  for (const graph::Mutation& m : graph->mutations) mutations.append(py::make_tuple(m.input, m.value->id));
  for (const graph::Output& o : graph->outputs) outputs.append(output(o));
  return py::make_tuple(std::move(inputs), std::move(nodes), std::move(mutations), std::move(outputs));
}

void add_graph_value(py::module_& m) { py::class_<GraphValue>(m, "GraphValue").def_readonly("id", &GraphValue::id); }

}  // namespace vesta::python
