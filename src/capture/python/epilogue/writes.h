// What a trace wrote to objects that existed before it: described at its end, and replayed after each run of the graph.
#pragma once

#include <string>
#include <vector>

#include "capture/python/epilogue/describe.h"
#include "capture/python/epilogue/reconstruct.h"
#include "capture/python/tracer/undo_log.h"

namespace vesta::capture {

// Turns entries of the undo log into side effects of the describer's epilogue.
class WriteDescriber {
 public:
  // `code`: the root frame's, for the names of variables in texts.
  WriteDescriber(Describer& objects, PyObject* code) : objects_(objects), code_(code) {}
  // False: see objects.blocked.
  bool describe(const UndoLog::Entry& e);
  std::vector<std::string> texts;  // what is written, for reports

 private:
  bool dict(int target, const UndoLog::Entry& e);
  bool items(int target, const UndoLog::Entry& e);
  bool fail(PyObject* x, Break why) { return objects_.fail(x, why) >= 0; }
  void add(SideEffect effect, std::string text);

  Describer& objects_;
  PyObject* code_;
};

// Does one write, all objects of which have been made. False with an error set.
bool replay(const SideEffect& effect, Reconstructor& objects);

}  // namespace vesta::capture
