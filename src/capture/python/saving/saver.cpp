#include "capture/python/saving/saver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <set>
#include <utility>

#include "artifact/uses.h"
#include "base/check.h"
#include "capture/python/guards/guard_text.h"
#include "capture/python/saving/places.h"
#include "capture/python/saving/scalars.h"
#include "capture/python/saving/weights.h"
#include "capture/python/segments/captured.h"
#include "interop/torch_release.h"
#include "machine/cuda/device_target.h"
#include "program/bytes.h"
#include "program/print.h"
#include "runtime/executable.h"

namespace vesta::capture {
namespace {

using Made = program::Make;
using program::Kind;
using program::Parameter;
using program::Scalar;
using What = program::Check::What;

std::string place_text(const UserLine& where) {
  return where.line > 0 ? fmt::format(" ({}:{})", where.file, where.line) : "";
}

// "self.first.weight" for "self._modules['first']._parameters['weight']".
std::string without_dicts(const std::string& text) {
  static const auto* in_dicts = new std::regex(R"(\._(?:modules|parameters|buffers)\['([^']*)'\])");
  return std::regex_replace(text, *in_dicts, ".$1");
}

// The machine that the artifact was compiled for. Calls into ATen alone need no target of the GPU.
Target target_of_code(const artifact::Artifact& a) {
  if (a.device.type != DeviceType::CUDA) return host_target();
  if (const Target* const gpu = machine::cuda_target(std::max<int>(0, a.device.index))) return *gpu;
  bool launches = false;
  artifact::for_each_launch(a, [&](const artifact::Launch&) { launches = true; });
  VESTA_CHECK(!launches, "a program with kernels of a GPU, and no GPU");
  return host_target();
}

// One variant of the program, from one of the capture.
class VariantSaver {
 public:
  VariantSaver(const Variant& v, const Registers& found, const Calling& calling, const Options& options,
               WeightTable& weights)
      : v_(v), found_(found), calling_(calling), options_(options), weights_(weights), places_(v, calling, out_) {}

  // `assumed`: those of the dropped guards that are of a value.
  program::Variant run(std::set<std::string>& dropped, std::set<std::string>& assumed) {
    for (const Guard& g : v_.guards.guards()) {
      try {
        if (hangs_on_arguments(g)) {
          add_guard(g);
          continue;
        }
        dropped.insert(guard_text(v_.guards, g) +
                       place_text(g.asked_in ? user_line(g.asked_in, g.position) : UserLine()));
        const bool value = (g.check == Check::Equals || g.check == Check::Is) && g.source >= 0;
        if (const auto s = value ? scalar_of(g.expected) : std::nullopt)
          assumed.insert(fmt::format("{} == {}", without_dicts(text(g.source)), to_string(*s)));
      } catch (const UserError& e) {
        const UserLine where = g.asked_in ? user_line(g.asked_in, g.position) : UserLine();
        throw UserError(fmt::format("{}: it depends on {}{}", e.what(), guard_text(v_.guards, g), place_text(where)));
      }
    }
    for (const std::string& effect : v_.report.effects) dropped.insert("writes " + effect);
    add_inputs();
    check_what_is_not_given();
    made_.assign(v_.epilogue.reconstructions.size(), -1);
    const int result = reconstruction(v_.epilogue.result);
    VESTA_CHECK(result == static_cast<int>(out_.makes.size()) - 1, "the result is not the last value");
    out_.artifact = v_.graph.executable->artifact();
    name_inputs();
    for (const auto& [name, value] : v_.graph.report.key->fields)
      if (name == "graph") out_.origin.graph = value;
    out_.origin.inference = true;
    out_.origin.numerics = options_.numerics;
    out_.origin.deterministic = v_.entry.deterministic;
    out_.origin.packed_weights = options_.packed_weights;
    out_.origin.kernels = options_.kernels;
    out_.origin.target = target_of_code(out_.artifact);
    out_.origin.torch = torch_release();
    out_.origin.cuda_graphs = options_.cuda_graphs;
    out_.origin.copied_inputs = options_.copied_inputs;
    out_.origin.cuda_graph_memory = options_.cuda_graph_memory;
    return std::move(out_);
  }

 private:
  std::string text(int source) const {
    return v_.guards.sources().text(source, reinterpret_cast<PyObject*>(v_.guards.code));
  }

  void check(What what, int place, Kind kind = Kind::None, Scalar value = {}, int64_t number = 0) {
    out_.checks.push_back({what, place, kind, std::move(value), number, {}});
  }

  static bool is_pair(const Guard& g) { return g.check == Check::Same || g.check == Check::Different; }
  bool hangs_on_arguments(const Guard& g) const {
    return (g.source >= 0 && places_.is_argument(g.source)) ||
           (is_pair(g) && places_.is_argument(static_cast<int>(g.number)));
  }

  void add_guard(const Guard& g) {
    const int other = static_cast<int>(g.number);
    if (is_pair(g) && !(places_.is_argument(g.source) && places_.is_argument(other))) {
      // No argument of another process is an object of this one.
      VESTA_USER_CHECK(g.check == Check::Different, "an argument is an object that the program knows");
      return;
    }
    // What a tensor is beside its values: a saved program records no gradients.
    if (g.check == Check::Tensor || g.check == Check::Bare) return;
    const Source& s = v_.guards.sources()[g.source];
    if (s.kind == SourceKind::DictKey && g.check != Check::Absent) return;  // the guard of the dict's keys says it
    const int place = places_.of(g.source);
    if (place < 0) return add_passed_on(g);
    switch (g.check) {
      case Check::Type: {
        const auto kind = kind_of_class(g.expected);
        VESTA_USER_CHECK(kind, "an argument's class is unknown to saved programs");
        return check(What::Kind, place, *kind);
      }
      case Check::Is:
      case Check::Equals: {
        auto value = scalar_of(g.expected);
        VESTA_USER_CHECK(value, "an argument is compared with an object that cannot be saved");
        return check(What::Equals, place, Kind::None, std::move(*value));
      }
      case Check::Present: return check(What::Present, place);
      case Check::Absent: return check(What::Absent, place);
      case Check::Length: return check(What::Length, place, Kind::None, {}, g.number);
      case Check::Keys: {
        program::Check c{What::Keys, place, Kind::None, {}, 0, {}};
        for (PyObject* key : v_.guards.keys(g)) {
          auto scalar = scalar_of(key);
          VESTA_USER_CHECK(scalar, "a dict has keys that cannot be saved");
          c.keys.push_back(std::move(*scalar));
        }
        out_.checks.push_back(std::move(c));
        return;
      }
      case Check::Same:
      case Check::Different:
        return check(g.check == Check::Same ? What::Same : What::Different, place, Kind::None, {}, places_.of(other));
      default: throw UserError("an argument is asked for what a saved program does not know of it");
    }
  }

  // Of the tuple and the dict that a module's __call__ hands on: which parameters are given.
  void add_passed_on(const Guard& g) {
    int positional = 0;
    for (const Parameter& p : calling_.parameters)
      positional += p.how == Parameter::How::PositionalOnly || p.how == Parameter::How::Plain;
    if (g.check == Check::Length && v_.guards.sources()[g.source].index == 1) {
      const auto count = static_cast<int>(g.number);
      for (int i = 0; i < std::min(count, positional); ++i) places_.add({-1, i, {}});
      for (size_t i = 0; i < calling_.parameters.size(); ++i)
        if (calling_.parameters[i].how == Parameter::How::Positionals)
          check(What::Length, places_.add({-1, static_cast<int>(i), {}}), Kind::None, {},
                std::max(0, count - positional));
    }
    if (g.check != Check::Keys) return;
    program::Check rest{What::Keys, -1, Kind::None, {}, 0, {}};
    for (PyObject* key : v_.guards.keys(g)) {
      const auto name = scalar_of(key);
      const auto at = std::find_if(calling_.parameters.begin(), calling_.parameters.end(), [&](const Parameter& p) {
        return name && same(*name, Scalar(p.name)) && p.how != Parameter::How::Keywords;
      });
      if (at != calling_.parameters.end()) {
        places_.add({-1, static_cast<int>(at - calling_.parameters.begin()), {}});
      } else if (name) {
        rest.keys.push_back(*name);
      }
    }
    for (size_t i = 0; i < calling_.parameters.size(); ++i) {
      if (calling_.parameters[i].how != Parameter::How::Keywords) continue;
      rest.place = places_.add({-1, static_cast<int>(i), {}});
      out_.checks.push_back(rest);
    }
  }

  // forward() took its default for each of these when it was traced.
  void check_what_is_not_given() {
    if (!calling_.passes_on) return;
    const std::vector<bool> given = places_.given;
    for (size_t i = 0; i < given.size(); ++i) {
      const Parameter& p = calling_.parameters[i];
      if (given[i] || p.how == Parameter::How::Positionals || p.how == Parameter::How::Keywords) continue;
      const int place = places_.add({-1, static_cast<int>(i), {}});
      if (p.fallback)
        check(What::Equals, place, Kind::None, *p.fallback);
      else
        check(What::Absent, place);
    }
  }

  PyObject* found(int source) const {
    VESTA_USER_CHECK(found_[source], "{} is gone", text(source));
    return found_[source];
  }
  // Inputs are called by their parameters, in messages too.
  void name_inputs() {
    program::Program signature;
    signature.parameters = calling_.parameters;
    for (size_t i = 0; i < out_.inputs.size(); ++i) {
      if (out_.inputs[i].place < 0) continue;
      std::string& label = out_.artifact.inputs[i].name;
      const std::string was = std::exchange(label, program::text(signature, out_, out_.inputs[i].place));
      if (was.empty() || was == label) continue;
      for (artifact::Guard& g : out_.artifact.guards)
        for (size_t at = g.text.find(was + "."); at != std::string::npos;
             at = g.text.find(was + ".", at + label.size()))
          g.text.replace(at, was.size(), label);
    }
  }

  int weight(int source) { return weights_.add(found(source), without_dicts(text(source))); }

  void add_inputs() {
    for (const Variant::Input& in : v_.inputs) {
      program::Input made;
      made.is_number = in.is_number;
      if (in.source >= 0 && places_.is_argument(in.source)) {
        made.place = places_.of(in.source);
      } else if (in.is_number) {
        throw UserError(
            fmt::format("{} is a number that may change from call to call; make it an argument", text(in.source)));
      } else {
        made.weight = in.source >= 0 ? weight(in.source) : weights_.add(in.constant, "constant");
      }
      out_.inputs.push_back(made);
    }
    for (const int source : v_.integers) {
      VESTA_USER_CHECK(places_.is_argument(source),
                       "{} is a number that changed from call to call; make it an argument", text(source));
      out_.integers.push_back(places_.of(source));
    }
  }

  int add(Made m) {
    out_.makes.push_back(std::move(m));
    return static_cast<int>(out_.makes.size()) - 1;
  }
  int constant(PyObject* x, const char* what) {
    if (auto s = scalar_of(x)) return add({Made::What::Constant, std::move(*s), 0, {}});
    if (is_tensor(x)) return add({Made::What::Weight, {}, weights_.add(x, "constant"), {}});
    throw UserError(fmt::format("the result holds {} of class {}, which cannot be saved", what, Py_TYPE(x)->tp_name));
  }
  int container(Made::What what, const std::vector<int>& parts) {
    Made m{what, {}, 0, {}};
    for (const int part : parts) m.parts.push_back(reconstruction(part));
    return add(std::move(m));
  }

  // The value that a reconstruction of the epilogue makes. Parts come before what holds them.
  int reconstruction(int number) {
    int& known = made_[static_cast<size_t>(number)];
    VESTA_USER_CHECK(known != kOpen, "the result holds itself");
    if (known >= 0) return known;
    known = kOpen;
    const int made = describe(v_.epilogue.reconstructions[static_cast<size_t>(number)]);
    return made_[static_cast<size_t>(number)] = made;
  }

  int describe(const Reconstruction& r) {
    const std::vector<int>& parts = r.parts;
    switch (r.make) {
      case Make::Constant: return constant(r.object, "an object");
      case Make::Source: {
        const int source = v_.epilogue.needed[static_cast<size_t>(r.index)];
        if (places_.is_argument(source)) {
          const int place = places_.of(source);
          VESTA_USER_CHECK(place >= 0, "the result holds the tuple or dict of all arguments");
          return add({Made::What::Argument, {}, place, {}});
        }
        if (is_tensor(found(source))) return add({Made::What::Weight, {}, weight(source), {}});
        return constant(found(source), text(source).c_str());
      }
      case Make::Output: return add({Made::What::Output, {}, r.index, {}});
      case Make::StructSequence:
      case Make::Tuple: return container(Made::What::Tuple, parts);
      case Make::List: return container(Made::What::List, parts);
      case Make::OrderedDict:
      case Make::Dict: return container(Made::What::Dict, parts);
      case Make::Subclass: return reconstruction(parts.at(0));
      case Make::Instance: {
        // By its C base: a dict, list or tuple is that; other objects are dicts of their attributes.
        const Reconstruction& payload = v_.epilogue.reconstructions[static_cast<size_t>(parts.at(0))];
        if (payload.make != Make::Null) return reconstruction(parts[0]);
        VESTA_USER_CHECK(parts.size() == 1 + 2 * static_cast<size_t>(r.index), "the result has an object with slots");
        return container(Made::What::Dict, {parts.begin() + 1, parts.end()});
      }
      case Make::Call:
        // torch.Size of a tuple.
        if (parts.size() == 2 && PyType_Check(object_of(parts[0])) &&
            PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(object_of(parts[0])), &PyTuple_Type))
          return reconstruction(parts[1]);
        break;
      default: break;
    }
    throw UserError(
        "the result holds an object that cannot be saved; return tensors, numbers, strings, and lists, "
        "tuples and dicts of them");
  }
  PyObject* object_of(int number) const {
    PyObject* x = v_.epilogue.reconstructions[static_cast<size_t>(number)].object;
    return x ? x : Py_None;
  }

  static constexpr int kOpen = -2;
  const Variant& v_;
  const Registers& found_;
  const Calling& calling_;
  const Options& options_;
  WeightTable& weights_;
  program::Variant out_;
  Places places_;
  std::vector<int> made_;  // by reconstruction
};

std::vector<bool> arguments_of(const Variant& v, const Calling& calling) {
  program::Variant unused;
  return Places(v, calling, unused).arguments();
}

// Whether all that is written beside tensors are objects of the program, with values of the program: a loaded program
// has neither, and is as the program was when it was saved. What a call computes, or was given, would be lost.
bool writes_program_alone(const Variant& v, const std::vector<bool>& arguments) {
  const auto is_of_program = [&](auto&& self, int number) -> bool {
    if (number < 0) return true;
    const Reconstruction& r = v.epilogue.reconstructions[static_cast<size_t>(number)];
    if (r.make == Make::Output) return false;
    if (r.make == Make::Source) return !arguments[static_cast<size_t>(v.epilogue.needed[static_cast<size_t>(r.index)])];
    if (r.make == Make::Instance) return false;  // its parts are no reconstructions alone
    return std::all_of(r.parts.begin(), r.parts.end(), [&](int part) { return self(self, part); });
  };
  const auto holds = [&](int number) { return is_of_program(is_of_program, number); };
  return std::all_of(v.epilogue.effects.begin(), v.epilogue.effects.end(), [&](const SideEffect& e) {
    return holds(e.target) && holds(e.key) && holds(e.value) && std::all_of(e.parts.begin(), e.parts.end(), holds);
  });
}

// Why a call now would not take this variant, or why it cannot be saved; empty: it is fine. Fills the registers.
std::string why_not(const Segment& s, const Variant& v, const Calling& calling, Registers& found) {
  if (v.epilogue.kind == Epilogue::Kind::Break) {
    const CaptureBreak stop = v.report.stop.value_or(CaptureBreak());
    return fmt::format("it is not one graph: {}{}", stop.reason, place_text(stop.where));
  }
  if (v.graph.differentiable) return "it records gradients; call the compiled program once under torch.no_grad()";
  if (!v.graph.executable) return "it computes nothing with tensors";
  const std::vector<bool> arguments = arguments_of(v, calling);
  if (!writes_program_alone(v, arguments))
    return fmt::format("it writes {}, and a saved program writes tensors only", fmt::join(v.report.effects, ", "));
  if (!(v.entry == v.leave)) return "it changes torch's global state";
  if (!v.watched.alive()) return "an object that it was compiled for is gone";
  // Modes that decide on gradients alone, and the number of threads, are the caller's.
  TorchState now = torch_state();
  now.grad = v.entry.grad;
  now.inference = v.entry.inference;
  now.threads = v.entry.threads;
  if (!(now == v.entry)) return "it was compiled under " + difference(v.entry, now).guard;
  auto* function = reinterpret_cast<PyFunctionObject*>(calling.function.get());
  std::vector<PyObject*> slots(static_cast<size_t>(reinterpret_cast<PyCodeObject*>(s.code.get())->co_nlocalsplus + 1));
  slots[0] = calling.bound.get();
  const Roots roots{slots.data(), calling.function.get(), function->func_globals, function->func_builtins};
  const int failed = v.guards.check_without(arguments, roots, found);
  if (failed == GuardProgram::kHolds) return {};
  return fmt::format("{} no longer holds", guard_text(v.guards, v.guards.guards()[static_cast<size_t>(failed)]));
}

}  // namespace

Saving make_program(const Captured& captured, const Calling& calling) {
  Saving out;
  out.program.name = captured.name();
  out.program.parameters = calling.parameters;
  WeightTable weights(calling.names);
  std::set<std::string> dropped, assumed;
  auto* code = PyFunction_GET_CODE(calling.function.get());
  for (const Segment* s : captured.segments()) {
    if (s->code.get() != code || s->position != 0) continue;
    if (!s->skipped.empty()) out.skipped.push_back(s->skipped.text);
    for (const std::shared_ptr<Variant>& v : s->variants) {
      Registers found;
      std::string why = why_not(*s, *v, calling, found);
      if (why.empty()) {
        try {
          out.program.variants.push_back(
              VariantSaver(*v, found, calling, captured.options, weights).run(dropped, assumed));
          continue;
        } catch (const UserError& e) {
          why = e.what();
        }
      }
      if (std::find(out.skipped.begin(), out.skipped.end(), why) == out.skipped.end())
        out.skipped.push_back(std::move(why));
    }
  }
  if (out.program.variants.empty()) {
    VESTA_USER_CHECK(!out.skipped.empty(),
                     "{} has not been compiled yet: call it once, under torch.no_grad(), with "
                     "arguments like those of later calls",
                     out.program.name);
    throw UserError(fmt::format("{} cannot be saved: {}", out.program.name, fmt::join(out.skipped, "; and ")));
  }
  out.dropped.assign(dropped.begin(), dropped.end());
  out.program.assumed.assign(assumed.begin(), assumed.end());
  out.memory = weights.finish(out.program);
  program::verify(out.program);
  return out;
}

}  // namespace vesta::capture
