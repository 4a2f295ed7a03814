#include "capture/python/saving/result_saver.h"

#include <fmt/format.h>

#include "base/check.h"
#include "capture/python/saving/scalars.h"

namespace vesta::capture {

int ResultSaver::add(Made m) {
  parts_.out.makes.push_back(std::move(m));
  return static_cast<int>(parts_.out.makes.size()) - 1;
}
int ResultSaver::constant(PyObject* x, const char* what) {
  if (auto s = scalar_of(x)) return add({Made::What::Constant, std::move(*s), 0, {}});
  if (is_tensor(x)) return add({Made::What::Weight, {}, parts_.weights.add(x, "constant"), {}});
  throw UserError(fmt::format("the result contains {} of class {}, which cannot be saved", what, Py_TYPE(x)->tp_name));
}
int ResultSaver::container(Made::What what, const std::vector<int>& parts) {
  Made m{what, {}, 0, {}};
  for (const int part : parts) m.parts.push_back(save(part));
  return add(std::move(m));
}

int ResultSaver::save(int number) {
  int& known = made_[static_cast<size_t>(number)];
  VESTA_USER_CHECK(known != kOpen, "the result contains itself, which cannot be saved");
  if (known >= 0) return known;
  known = kOpen;
  const int made = describe(parts_.variant.epilogue.reconstructions[static_cast<size_t>(number)]);
  return made_[static_cast<size_t>(number)] = made;
}

int ResultSaver::describe(const Reconstruction& r) {
  const std::vector<int>& parts = r.parts;
  switch (r.make) {
    case Make::Constant: return constant(r.object, "an object");
    case Make::Source: {
      const int source = parts_.variant.epilogue.needed[static_cast<size_t>(r.index)];
      if (parts_.places.is_argument(source)) {
        const int place = parts_.places.of(source);
        VESTA_USER_CHECK(place >= 0, "the result contains the tuple or dict of all arguments, which cannot be saved");
        return add({Made::What::Argument, {}, place, {}});
      }
      if (is_tensor(parts_.object(source))) return add({Made::What::Weight, {}, parts_.weight(source), {}});
      return constant(parts_.object(source), parts_.text(source).c_str());
    }
    case Make::Output: return add({Made::What::Output, {}, r.index, {}});
    case Make::StructSequence:
    case Make::Tuple: return container(Made::What::Tuple, parts);
    case Make::List: return container(Made::What::List, parts);
    case Make::OrderedDict:
    case Make::Dict: return container(Made::What::Dict, parts);
    case Make::Subclass: return save(parts.at(0));
    case Make::Instance: {
      // By its C base: a dict, list or tuple is that; other objects are dicts of their attributes.
      const Reconstruction& payload = parts_.variant.epilogue.reconstructions[static_cast<size_t>(parts.at(0))];
      if (payload.make != Make::Null) return save(parts[0]);
      VESTA_USER_CHECK(parts.size() == 1 + 2 * static_cast<size_t>(r.index),
                       "the result contains an object with __slots__, which cannot be saved");
      return container(Made::What::Dict, {parts.begin() + 1, parts.end()});
    }
    case Make::Call:
      // torch.Size of a tuple.
      if (parts.size() == 2 && PyType_Check(object_of(parts[0])) &&
          PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(object_of(parts[0])), &PyTuple_Type))
        return save(parts[1]);
      break;
    default: break;
  }
  throw UserError(
      "the result contains an object that cannot be saved; return tensors, numbers, strings, and lists, "
      "tuples and dicts of them");
}
PyObject* ResultSaver::object_of(int number) const {
  PyObject* x = parts_.variant.epilogue.reconstructions[static_cast<size_t>(number)].object;
  return x ? x : Py_None;
}

}  // namespace vesta::capture
