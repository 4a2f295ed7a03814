// The extension module vesta_capture_tests: unit tests of src/capture/python inside of a Python interpreter, with torch
// imported before. ctest runs vesta_capture_tests.run(arguments). Its other functions show Python tests the table of C
// functions.
#include <Python.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "known_functions.h"

namespace {

PyObject* run(PyObject*, PyObject* given) {
  PyObject* list = PySequence_List(given);
  if (!list) return nullptr;
  std::vector<std::string> texts;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    const char* text = PyUnicode_AsUTF8(PyList_GET_ITEM(list, i));
    if (!text) return Py_DECREF(list), nullptr;
    texts.emplace_back(text);
  }
  Py_DECREF(list);
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  testing::InitGoogleTest(&count, arguments.data());
  return PyLong_FromLong(RUN_ALL_TESTS());
}

PyMethodDef methods[] = {
    {"run", run, METH_O, "Runs the tests; the result is the exit code. Arguments are gtest's."},
    {"known_functions", vesta::capture::testing::known_functions, METH_NOARGS, "The rows of the table of C functions."},
    {"known_classes", vesta::capture::testing::known_classes, METH_NOARGS, "The classes with a row."},
    {"effect_of", vesta::capture::testing::effect_of, METH_O, "The effect of a C function."},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "vesta_capture_tests", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_vesta_capture_tests() { return PyModule_Create(&definition); }
