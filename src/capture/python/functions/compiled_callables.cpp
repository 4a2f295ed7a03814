#include "capture/python/functions/compiled_callables.h"

namespace vesta::capture {
namespace {

LookInside look_inside = nullptr;

}  // namespace

void set_look_inside(LookInside look) { look_inside = look; }

PyObject* compiled_by_vesta(PyObject* x) { return look_inside ? look_inside(x) : nullptr; }

}  // namespace vesta::capture
