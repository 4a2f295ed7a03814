// Python code and frames for tests of src/capture/python.
#pragma once

#include <Python.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "capture/python/hook/hook.h"
#include "capture/python/object.h"

namespace vesta::capture::testing {

// Names and their objects, of one test.
class Python {
 public:
  Python() : names_(Object::take(PyDict_New())) {
    PyDict_SetItemString(names_.get(), "__builtins__", PyEval_GetBuiltins());
    run("import collections, torch, weakref");
  }
  // Executes statements; a Python exception fails the test.
  void run(const std::string& code) {
    const Object result = Object::take(PyRun_String(code.c_str(), Py_file_input, names_.get(), names_.get()));
    if (!result) PyErr_Print();
    EXPECT_TRUE(result) << code;
  }
  // The value of an expression.
  Object eval(const std::string& code) {
    Object result = Object::take(PyRun_String(code.c_str(), Py_eval_input, names_.get(), names_.get()));
    if (!result) PyErr_Print();
    EXPECT_TRUE(result) << code;
    return result;
  }
  // Whether the expression is true.
  bool holds(const std::string& code) {
    const Object result = eval(code);
    return result && PyObject_IsTrue(result.get()) == 1;
  }
  std::string repr(const std::string& code) {
    const Object text = eval("repr(" + code + ")");
    return text ? PyUnicode_AsUTF8(text.get()) : "";
  }
  void set(const char* name, PyObject* x) { PyDict_SetItemString(names_.get(), name, x); }
  PyObject* get(const char* name) { return PyDict_GetItemString(names_.get(), name); }

  // Calls the expression; `look` sees the frame before its first instruction.
  void in_frame(const std::string& call, const std::function<void(Frame*)>& look) {
    struct Look final : FrameReceiver {
      const std::function<void(Frame*)>& look;
      PyCodeObject* code;
      Look(const std::function<void(Frame*)>& look, PyCodeObject* code) : look(look), code(code) {}
      PyObject* receive(PyThreadState* t, Frame* f, int throwflag) override {
        look(f);
        return evaluate_by_cpython(t, f, throwflag);
      }
    };
    const std::string name = call.substr(0, call.find('('));
    const Object function = eval(name);
    ASSERT_TRUE(function && PyFunction_Check(function.get())) << name;
    Look receiver(look, reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.get())));
    const HookScope scope(receiver, receiver.code);
    eval(call);
  }

 private:
  Object names_;
};

}  // namespace vesta::capture::testing
