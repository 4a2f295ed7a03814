// Describes objects that exist at the end of a trace by reconstructions, which make equal objects after each run. An
// object is described once: aliases stay aliases, and an object may hold itself. What cannot be made is a graph break,
// whose reason is kept. Describing runs no code of the program and changes no object of it.
#pragma once

#include <initializer_list>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/python/breaks/breaks.h"
#include "capture/python/epilogue/epilogue.h"

namespace vesta::capture {

class Trace;

class Describer {
 public:
  Describer(Trace& trace, Epilogue& epilogue) : trace(trace), epilogue(epilogue) {}

  // The number of the reconstruction of x (nullptr: of no object), or -1: see `blocked`.
  int value(PyObject* x);
  // The object itself.
  int constant(PyObject* x) { return add({Make::Constant, 0, keep(x), {}}); }
  // Appends value(x) of each to `parts`, up to the first failure.
  bool values(std::initializer_list<PyObject*> xs, std::vector<int>& parts);

  // ---- for the functions that describe one kind of object (describe_kinds.h)
  int add(Reconstruction r);
  // `r` makes x, unless x is known already. For objects that may hold themselves: before their parts are described.
  int add(PyObject* x, Reconstruction r);
  Reconstruction& operator[](int id) { return epilogue.reconstructions[static_cast<size_t>(id)]; }
  PyObject* keep(PyObject* x);                                   // as long as the epilogue; returns x
  int fail(PyObject* x, Break why, std::string_view what = {});  // -1; the first failure stays

  Trace& trace;
  Epilogue& epilogue;
  std::vector<PyObject*> outputs;  // of the graph
  std::vector<Object> alive;       // outputs and temporary objects, until the graph has been closed
  PyObject* blocked = nullptr;     // the first object that cannot be made
  Reason reason;                   // why

 private:
  int source(int id);
  int described(PyObject* x);
  int described_object(PyObject* x);
  int tensor_or_number(PyObject* x);

  std::unordered_map<PyObject*, int> known_;
  std::unordered_set<PyObject*>
      closed_;  // now being described. Their parts are made first, so that no part may hold them
  int depth_ = 0;
};

}  // namespace vesta::capture
