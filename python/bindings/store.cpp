#include "store.h"

#include <pybind11/stl.h>

#include "base/target.h"
#include "codegen/codegen.h"
#include "pipeline/why_miss.h"
#include "store/store.h"
#include "vesta/error.h"

namespace py = pybind11;

namespace vesta::python {

namespace {

py::list as_list(const std::vector<pipeline::KeyDifference>& differences) {
  py::list out;
  for (const pipeline::KeyDifference& d : differences) out.append(py::make_tuple(d.field, d.was, d.now, d.line));
  return out;
}

}  // namespace

py::object why_miss(const CompileReport& report, const std::string& folder) {
  std::optional<pipeline::NearestEntry> found;
  if (report.key) {
    const py::gil_scoped_release release;
    found = pipeline::nearest(folder, *report.key);
  }
  if (!found) return py::none();
  return py::make_tuple(found->entry, as_list(found->differences));
}

void add_store(py::module_& m) {
  py::register_local_exception_translator([](std::exception_ptr error) {
    try {
      std::rethrow_exception(error);
    } catch (const UserError& e) {
      py::set_error(py::module_::import("vesta.errors").attr("UserError"), e.what());
    }
  });
  py::class_<store::Listed>(m, "CacheEntry")
      .def_readonly("key", &store::Listed::key)
      .def_readonly("bytes", &store::Listed::bytes)
      .def_readonly("used", &store::Listed::used)
      .def_readonly("intact", &store::Listed::intact);
  m.def(
      "cache_folder",
      [] {
        const auto folder = store::folder_of_user();
        return folder ? std::optional(folder->string()) : std::nullopt;
      },
      "Where compiled code is kept; None: nowhere.");
  m.def(
      "cache_entries", [](const std::string& folder, bool check) { return store::list(folder, check); },
      py::arg("folder"), py::arg("check") = false, py::call_guard<py::gil_scoped_release>(),
      "Entries of a cache, the one used last first; `check` compares each with its digest.");
  m.def(
      "cache_trim",
      [](const std::string& folder, int64_t most_bytes, bool damaged) {
        return store::trim(folder, most_bytes, damaged);
      },
      py::arg("folder"), py::arg("most_bytes"), py::arg("damaged") = false, py::call_guard<py::gil_scoped_release>(),
      "Deletes until `most_bytes` are left; the bytes deleted.");
  m.def(
      "compare_entries",
      [](const std::string& folder, const std::string& was, const std::string& now) {
        return as_list(pipeline::differences(pipeline::key_of_entry(folder, was), pipeline::key_of_entry(folder, now)));
      },
      py::arg("folder"), py::arg("was"), py::arg("now"),
      "(field, was, now, line) of each difference between the keys of two artifacts.");
  m.def(
      "cache_find",
      [](const std::string& key) -> py::object {
        store::Store* const store = store::shared();
        const std::optional<std::string> found = store ? store->find(key) : std::nullopt;
        return found ? py::object(py::bytes(*found)) : py::none();
      },
      py::arg("key"), "The content of an entry of the process's cache; None: there is none.");
  m.def(
      "cache_put",
      [](std::string key, std::string content) {
        if (store::Store* const store = store::shared()) store->put(std::move(key), std::move(content));
      },
      py::arg("key"), py::arg("content"), "Writes an entry of the process's cache, if there is one.");
  m.attr("CACHE_BYTES") = store::kMostBytes;
  m.def(
      "host_target",
      [] {
        const Target& t = host_target();
        py::dict out;
        out["device"] = to_string(Device{t.device});
        out["cpu"] = t.cpu;
        out["features"] = t.features;
        out["vector_bytes"] = t.vector_bytes;
        out["threads"] = t.threads;
        out["caches"] = py::make_tuple(t.l1_bytes, t.l2_bytes, t.l3_bytes);
        out["generator"] = codegen::fingerprint(t);
        return out;
      },
      "The machine that code is compiled for.");
}

}  // namespace vesta::python
