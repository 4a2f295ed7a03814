#include "capture/python/saving/saver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "artifact/uses.h"
#include "base/check.h"
#include "capture/python/guards/guard_text.h"
#include "capture/python/saving/argument_checks.h"
#include "capture/python/saving/result_saver.h"
#include "capture/python/saving/scalars.h"
#include "capture/python/segments/captured.h"
#include "interop/torch_release.h"
#include "machine/cuda/device_target.h"
#include "program/program.h"
#include "runtime/executable.h"

namespace vesta::capture {
namespace {

std::string place_text(const UserLine& where) {
  return where.line > 0 ? fmt::format(" ({}:{})", where.file, where.line) : "";
}

// The machine that the artifact was compiled for. An artifact of calls into ATen alone needs no target of a GPU.
Target target_of_code(const artifact::Artifact& a) {
  if (a.device.type != DeviceType::CUDA) return host_target();
  if (const Target* const gpu = machine::cuda_target(std::max<int>(0, a.device.index))) return *gpu;
  bool launches = false;
  artifact::for_each_launch(a, [&](const artifact::Launch&) { launches = true; });
  VESTA_CHECK(!launches, "a program has kernels for a GPU but no GPU");
  return host_target();
}

// One variant of the program, from one of the capture.
class VariantSaver {
 public:
  VariantSaver(const Variant& v, const Registers& found, const Calling& calling, const Options& options,
               WeightTable& weights)
      : v_(v), options_(options), places_(v, calling, out_), parts_{v, found, calling, weights, out_, places_} {}

  // `dropped`: takes what a loaded program does not check or do. `assumed`: those of the dropped guards that compare a
  // value.
  program::Variant run(std::set<std::string>& dropped, std::set<std::string>& assumed) {
    add_guards(dropped, assumed);
    for (const std::string& effect : v_.report.effects) dropped.insert("writes " + effect);
    add_inputs();
    ArgumentChecks(parts_).add_not_given();
    const int result = ResultSaver(parts_).save(v_.epilogue.result);
    VESTA_CHECK(result == static_cast<int>(out_.makes.size()) - 1, "the result is not the last value");
    out_.artifact = v_.graph.executable->artifact();
    name_inputs();
    set_origin();
    return std::move(out_);
  }

 private:
  void add_guards(std::set<std::string>& dropped, std::set<std::string>& assumed) {
    ArgumentChecks checks(parts_);
    for (const Guard& g : v_.guards.guards()) {
      const UserLine where = g.asked_in ? user_line(g.asked_in, g.position) : UserLine();
      try {
        if (checks.concern(g)) {
          checks.add(g);
          continue;
        }
        dropped.insert(guard_text(v_.guards, g) + place_text(where));
        const bool value = (g.check == Check::Equals || g.check == Check::Is) && g.source >= 0;
        if (const auto s = value ? scalar_of(g.expected) : std::nullopt)
          assumed.insert(fmt::format("{} == {}", parts_.plain_text(g.source), to_string(*s)));
      } catch (const UserError& e) {
        throw UserError(fmt::format("{}: it depends on {}{}", e.what(), guard_text(v_.guards, g), place_text(where)));
      }
    }
  }

  void set_origin() {
    out_.origin = {.inference = true,
                   .numerics = options_.numerics,
                   .packed_weights = options_.packed_weights,
                   .kernels = options_.kernels,
                   .target = target_of_code(out_.artifact),
                   .torch = torch_release(),
                   .cuda_graphs = options_.cuda_graphs,
                   .copied_inputs = options_.copied_inputs,
                   .cuda_graph_memory = options_.cuda_graph_memory,
                   .deterministic = v_.entry.deterministic};
    for (const auto& [name, value] : v_.graph.report.key->fields)
      if (name == "graph") out_.origin.graph = value;
  }

  // Inputs have the names of their parameters, in messages as well.
  void name_inputs() {
    program::Program signature;
    signature.parameters = parts_.calling.parameters;
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

  void add_inputs() {
    for (const Variant::Input& in : v_.inputs) {
      program::Input made;
      made.is_number = in.is_number;
      if (in.source >= 0 && places_.is_argument(in.source)) {
        made.place = places_.of(in.source);
      } else if (in.is_number) {
        throw UserError(
            fmt::format("{} is a number that may change between calls; make it an argument", parts_.text(in.source)));
      } else {
        made.weight = in.source >= 0 ? parts_.weight(in.source) : parts_.weights.add(in.constant, "constant");
      }
      out_.inputs.push_back(made);
    }
    for (const int source : v_.integers) {
      VESTA_USER_CHECK(places_.is_argument(source), "{} is a number that changed between calls; make it an argument",
                       parts_.text(source));
      out_.integers.push_back(places_.of(source));
    }
  }

  const Variant& v_;
  const Options& options_;
  program::Variant out_;
  Places places_;
  VariantParts parts_;
};

std::vector<bool> arguments_of(const Variant& v, const Calling& calling) {
  program::Variant unused;
  return Places(v, calling, unused).arguments();
}

// Apart from tensors, the variant writes only the program's objects, and only values of the program. A loaded program
// has neither and behaves as the program did when it was saved. A value that a call computes or gets would be lost.
bool writes_program_alone(const Variant& v, const std::vector<bool>& arguments) {
  const auto is_of_program = [&](auto&& self, int number) -> bool {
    if (number < 0) return true;
    const Reconstruction& r = v.epilogue.reconstructions[static_cast<size_t>(number)];
    if (r.make == Make::Output) return false;
    if (r.make == Make::Source) return !arguments[static_cast<size_t>(v.epilogue.needed[static_cast<size_t>(r.index)])];
    if (r.make == Make::Instance) return false;  // not all of its parts are reconstructions
    return std::all_of(r.parts.begin(), r.parts.end(), [&](int part) { return self(self, part); });
  };
  const auto holds = [&](int number) { return is_of_program(is_of_program, number); };
  return std::all_of(v.epilogue.effects.begin(), v.epilogue.effects.end(), [&](const SideEffect& e) {
    return holds(e.target) && holds(e.key) && holds(e.value) && std::all_of(e.parts.begin(), e.parts.end(), holds);
  });
}

// Why a call could not use this variant now, or why it cannot be saved; empty: it can be. Fills the registers.
std::string why_not(const Segment& s, const Variant& v, const Calling& calling, Registers& found) {
  if (v.epilogue.kind == Epilogue::Kind::Break) {
    const CaptureBreak stop = v.report.stop.value_or(CaptureBreak());
    return fmt::format("it is not one graph: {}{}", stop.reason, place_text(stop.where));
  }
  if (v.graph.trains) return "it records gradients; call the compiled program once under torch.no_grad()";
  if (!v.graph.executable) return "it does not compute anything with tensors";
  const std::vector<bool> arguments = arguments_of(v, calling);
  if (!writes_program_alone(v, arguments))
    return fmt::format("it writes {}, but a saved program can write tensors only", fmt::join(v.report.effects, ", "));
  if (!(v.entry == v.leave)) return "it changes torch's global state, which a saved program cannot do";
  if (!v.watched.alive()) return "an object that it was compiled for does not exist any more";
  // The caller of a loaded program sets its own gradient modes and number of threads.
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
  return fmt::format("the guard {} does not hold now",
                     guard_text(v.guards, v.guards.guards()[static_cast<size_t>(failed)]));
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
                     "{} has not been compiled yet; call it once under torch.no_grad() with "
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
