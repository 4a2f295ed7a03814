#include "account.h"

#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "base/events.h"
#include "vesta/stats.h"

namespace py = pybind11;

namespace vesta::python {

void add_account(py::module_& m) {
  py::class_<StageTotal>(m, "StageTotal").def_readonly("runs", &StageTotal::runs).def_readonly("ms", &StageTotal::ms);
  py::class_<Stats> all(m, "Stats");
  std::vector<std::string> names;
  const auto field = [&](const char* name, auto member) {
    all.def_readonly(name, member);
    names.emplace_back(name);
  };
  field("stages", &Stats::stages);
  field("waited_ms", &Stats::waited_ms);
  field("frames", &Stats::frames);
  field("segments", &Stats::segments);
  field("variants", &Stats::variants);
  field("recompiles", &Stats::recompiles);
  field("breaks", &Stats::breaks);
  field("calls", &Stats::calls);
  field("aside", &Stats::aside);
  field("hits", &Stats::hits);
  field("early_hits", &Stats::early_hits);
  field("misses", &Stats::misses);
  field("fallbacks", &Stats::fallbacks);
  field("artifacts_found", &Stats::artifacts_found);
  field("artifacts_missed", &Stats::artifacts_missed);
  field("kernels_in_process", &Stats::kernels_in_process);
  field("kernels_in_store", &Stats::kernels_in_store);
  field("kernels_compiled", &Stats::kernels_compiled);
  field("graph_bytes", &Stats::graph_bytes);
  field("plan_bytes", &Stats::plan_bytes);
  field("generator_bytes", &Stats::generator_bytes);
  field("code_bytes", &Stats::code_bytes);
  field("arena_bytes", &Stats::arena_bytes);
  field("pool_bytes", &Stats::pool_bytes);
  field("packed_bytes", &Stats::packed_bytes);
  field("cuda_graph_bytes", &Stats::cuda_graph_bytes);
  field("peak_bytes", &Stats::peak_bytes);
  field("owner_bytes", &Stats::owner_bytes);
  all.def_property_readonly("compile_ms", &Stats::compile_ms);
  all.def("__str__", [](const Stats& s) { return to_string(s); });
  all.def("__repr__", [](const Stats& s) { return to_string(s); });
  all.def("prometheus", &prometheus, "The counts in Prometheus's text format, for a server's page of metrics.");
  all.def(
      "as_dict",
      [names](const py::object& self) {
        py::dict out;
        for (const std::string& name : names) out[name.c_str()] = self.attr(name.c_str());
        py::dict stages;
        for (const auto& [name, stage] : self.cast<const Stats&>().stages)
          stages[name.c_str()] = py::dict(py::arg("runs") = stage.runs, py::arg("ms") = stage.ms);
        out["stages"] = stages;
        return out;
      },
      "Every count by its name, as numbers and dicts of numbers.");
  m.def("stats", &stats, "What Vesta has done in this process.");
  m.def("reset_stats", &reset_stats, "Counts begin again at 0.");

  m.def("start_events", &events::start, "Records events, into an empty ring; False: this goes on already.");
  m.def("stop_events", &events::stop, "Records no further events in the ring.");
  m.def(
      "recorded_events",
      [] {
        const events::Recorded all = events::recorded();
        std::vector<std::string> lines;
        for (const events::Event& e : all.events) lines.push_back(events::to_json(e));
        return std::pair(lines, all.dropped);
      },
      py::call_guard<py::gil_scoped_release>(), "Each event as a line of JSON, and how many made room for later ones.");
}

}  // namespace vesta::python
