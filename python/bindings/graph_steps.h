// The statements of a graph as Python objects, for an evaluator that calls one operator after the other.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace vesta::python {

// (inputs, nodes, mutations, outputs). Inputs are ids of values. A node is (operator, arguments, keyword arguments, ids
// of results), in which a value stands as GraphValue. A mutation is (input, value). An output is a dict of the fields
// of graph::Output. Sizes have their hints.
pybind11::tuple graph_steps(const std::string& text);

void add_graph_value(pybind11::module_& module);

}  // namespace vesta::python
