#include "pipeline/tune.h"

#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/check.h"
#include "base/digest.h"
#include "base/stopwatch.h"
#include "interop/torch_types.h"
#include "loops/zeros.h"
#include "machine/cuda/driver.h"
#include "machine/cuda/meter.h"
#include "pipeline/key.h"
#include "runtime/kernel_meter.h"
#include "schedule/alternatives.h"

namespace vesta::pipeline {
namespace {

using schedule::KernelStep;

constexpr double kFaster = 0.97;  // of the planner's time: two measurements of one kernel differ by 1 % or 2 %
constexpr size_t kTogether = 2;   // kernels whose schedules are compiled together

// One kernel of the plan. Launches with equal text are one kernel.
struct Kernel {
  std::vector<KernelStep*> steps;
  double weight = 0;  // bytes that its launches move
  // The planner's schedule comes first.
  std::vector<std::shared_ptr<const loops::Kernel>> schedules;

  const KernelStep& largest() const {
    return **std::max_element(steps.begin(), steps.end(), [](const KernelStep* a, const KernelStep* b) {
      return a->estimated_bytes < b->estimated_bytes;
    });
  }
  double uses() const { return static_cast<double>(steps.size()); }
};

// The kernels that have alternative schedules, the heaviest first.
std::vector<Kernel> kernels_of(schedule::Plan& plan, const Target& target) {
  std::vector<Kernel> out;
  std::map<std::string_view, size_t> places;
  for (schedule::Step& s : plan.steps) {
    auto* const k = std::get_if<KernelStep>(&s);
    if (!k) continue;
    const auto [at, fresh] = places.emplace(k->text, out.size());
    if (fresh) out.emplace_back();
    out[at->second].steps.push_back(k);
    out[at->second].weight += static_cast<double>(k->estimated_bytes);
  }
  for (Kernel& k : out) {
    const std::shared_ptr<const loops::Kernel> own = k.steps.front()->kernel;
    if (!loops::runs_on_zeros(*own)) continue;
    k.schedules = schedule::alternatives(*own, target);
    if (!k.schedules.empty()) k.schedules.insert(k.schedules.begin(), own);
  }
  std::erase_if(out, [](const Kernel& k) { return k.schedules.empty(); });
  std::stable_sort(out.begin(), out.end(), [](const Kernel& a, const Kernel& b) { return a.weight > b.weight; });
  return out;
}

bool is_for_gpu(const loops::Kernel& k) { return k.threads.block > 0; }

// An expression over a kernel's sizes, over the graph's symbols.
Expr of_step(Expr e, const loops::Kernel& k, const KernelStep& step) {
  return substitute(e, [&](Expr s) {
    const auto at = std::find(k.sizes.begin(), k.sizes.end(), s) - k.sizes.begin();
    return step.sizes.at(static_cast<size_t>(at));
  });
}

// The work items of a schedule of the step's kernel.
Expr items_of(const loops::Kernel& k, const KernelStep& step) {
  return of_step(is_for_gpu(k) ? loops::launched_items(k) : loops::work_items(k), k, step);
}

// The cost of such an item: all items together cost what they did.
Expr item_cost_of(const loops::Kernel& k, const KernelStep& step) {
  const int64_t items = std::max<int64_t>(1, hint(items_of(k, step)));
  return std::max<int64_t>(1, hint(step.items) * hint(step.item_cost) / items);
}

void choose(const Kernel& kernel, size_t which) {
  if (which == 0) return;
  const std::shared_ptr<const loops::Kernel>& chosen = kernel.schedules[which];
  const std::string text = print(*chosen);
  for (KernelStep* step : kernel.steps) {
    if (!is_for_gpu(*chosen)) {
      step->item_cost = item_cost_of(*chosen, *step);
      step->scratch = of_step(loops::scratch_bytes(*chosen), *chosen, *step);
    }
    step->items = items_of(*chosen, *step);
    step->kernel = chosen;
    step->text = text;
  }
}

machine::Trial trial_of(const schedule::Plan& plan, const KernelStep& step) {
  constexpr int64_t kAlignment = 256;
  machine::Trial trial;
  std::map<int, int64_t> starts;  // by buffer of the plan
  for (size_t b = 0; b < step.args.size(); ++b) {
    const schedule::KernelArg& arg = step.args[b];
    const graph::TensorType& t = plan.buffers[static_cast<size_t>(arg.buffer)].type;
    const int64_t element = element_size(real_of(t.dtype));
    const auto [at, fresh] = starts.emplace(arg.buffer, trial.bytes);
    if (fresh && !step.kernel->buffers[b].value) {
      int64_t last = 0;
      for (size_t d = 0; d < t.sizes.size(); ++d)
        last += std::max<int64_t>(0, hint(t.sizes[d]) - 1) * std::max<int64_t>(0, hint(t.strides[d]));
      const int64_t bytes = (last + 1) * element_size(t.dtype);
      trial.bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    const schedule::BufferRole role = plan.buffers[static_cast<size_t>(arg.buffer)].role;
    trial.buffers.push_back({at->second + hint(arg.offset) * element, step.kernel->buffers[b].value,
                             role == schedule::BufferRole::Prepacked || step.kernel->buffers[b].constant});
  }
  for (Expr e : step.sizes) trial.sizes.push_back(hint(e));
  trial.about_us = step.estimated_us;
  return trial;
}

// A choice as the store keeps it.
struct Choice {
  size_t which = 0;
  double before_us = 0, after_us = 0;
};

std::string key_of(const Kernel& kernel, const Target& target) {
  std::vector<int64_t> sizes;
  for (Expr e : kernel.largest().sizes) sizes.push_back(hint(e));
  return "tuned_" + digest({kernel.steps.front()->text, fmt::format("{}", fmt::join(sizes, " ")),
                            codegen::fingerprint(target), plan_text(target), compiler()});
}

std::string note_of(const Kernel& kernel, const Choice& c) {
  return fmt::format("{} {}\n{}", c.before_us, c.after_us, print(*kernel.schedules[c.which]));
}

std::optional<Choice> read_note(const Kernel& kernel, const std::string& note) {
  std::istringstream in(note);
  Choice c;
  if (!(in >> c.before_us >> c.after_us) || in.get() != '\n') return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto found =
      std::find_if(kernel.schedules.begin(), kernel.schedules.end(), [&](const auto& k) { return print(*k) == text; });
  if (found == kernel.schedules.end()) return std::nullopt;
  c.which = static_cast<size_t>(found - kernel.schedules.begin());
  return c;
}

// A line in the terminal, which is erased at the end.
class Progress {
 public:
  Progress(bool shows, size_t kernels) : kernels_(shows && isatty(STDERR_FILENO) ? kernels : 0) {}
  ~Progress() {
    if (shown_) write("\r\033[K");
  }
  Progress& operator=(Progress&&) = delete;  // neither copied nor moved
  void at(size_t kernel, double seconds) {
    if (kernels_ == 0) return;
    write(fmt::format("\r\033[Kvesta: measures kernel {} of {} ({:.0f} s)", kernel + 1, kernels_, seconds));
    shown_ = true;
  }

 private:
  static void write(const std::string& text) {
    if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // a terminal that is gone
  }
  const size_t kernels_;
  bool shown_ = false;
};

class Tuner {
 public:
  Tuner(schedule::Plan& plan, const Target& target, const TuneOptions& options, machine::Meter& meter)
      : plan_(plan), target_(target), options_(options), meter_(meter), begin_(options.clock()) {}

  Tuned run() {
    std::vector<Kernel> kernels = kernels_of(plan_, target_), open;
    TuningReport& report = out_.report;
    report.kernels = std::ssize(kernels);
    for (Kernel& k : kernels) {
      const auto note = options_.compile.store ? options_.compile.store->find(key_of(k, target_)) : std::nullopt;
      const std::optional<Choice> choice = note ? read_note(k, *note) : std::nullopt;
      if (choice) {
        ++report.known;
        take(k, *choice);
      } else {
        open.push_back(std::move(k));
      }
    }
    Progress progress(options_.shows_progress, kernels.size());
    for (size_t i = 0; i < open.size(); i += kTogether) {
      if (is_over()) {
        report.left += std::ssize(open) - static_cast<int64_t>(i);
        out_.finished = false;
        break;
      }
      const std::span together(open.data() + i, std::min(kTogether, open.size() - i));
      const std::vector<std::vector<codegen::Result>> code = compile(together);
      for (size_t k = 0; k < together.size(); ++k) {
        progress.at(i + k, options_.clock() - begin_);
        if (is_over()) {
          ++report.left;
          out_.finished = false;
        } else if (!measure(together[k], code[k])) {
          ++report.left;
        }
      }
    }
    if (kernels.empty()) report.why_none = "no kernel has another schedule";
    report.seconds = options_.clock() - begin_;
    return std::move(out_);
  }

 private:
  bool is_over() const { return options_.clock() - begin_ >= options_.seconds; }

  std::vector<std::vector<codegen::Result>> compile(std::span<const Kernel> kernels) const {
    std::vector<codegen::Request> requests;
    for (const Kernel& k : kernels)
      for (const auto& s : k.schedules) requests.push_back({print(*s), fmt::format("schedule{}", requests.size())});
    const std::vector<codegen::Result> all = codegen::compile(requests, target_, options_.compile);
    std::vector<std::vector<codegen::Result>> out;
    auto at = all.begin();
    for (const Kernel& k : kernels) {
      out.emplace_back(at, at + std::ssize(k.schedules));
      at += std::ssize(k.schedules);
    }
    return out;
  }

  // False: there is not enough memory to measure.
  bool measure(const Kernel& kernel, const std::vector<codegen::Result>& code) {
    const KernelStep& step = kernel.largest();
    const machine::Trial trial = trial_of(plan_, step);
    std::vector<machine::TimedKernel> timed;
    for (size_t i = 0; i < kernel.schedules.size(); ++i) {
      const loops::Kernel& k = *kernel.schedules[i];
      const int64_t items = hint(items_of(k, step));
      if (!is_for_gpu(k)) {
        timed.push_back({.object = code[i].object.get(),
                         .items = items,
                         .scratch = hint(of_step(loops::scratch_bytes(k), k, step)),
                         .item_ns = hint(item_cost_of(k, step))});
        continue;
      }
      const int64_t of_block = loops::items_of_block(k);
      const int64_t blocks = (items + of_block - 1) / of_block;
      if (blocks < 1 || blocks > INT32_MAX)
        return false;  // the planner's schedule, or an alternative, has no valid launch
      timed.push_back({code[i].object.get(),
                       {static_cast<unsigned>(blocks), static_cast<unsigned>(k.threads.block),
                        static_cast<unsigned>(loops::shared_bytes(k))},
                       items});
    }
    const auto times = meter_.measure(trial, timed);
    if (!times) return false;
    const auto best = static_cast<size_t>(std::min_element(times->begin(), times->end()) - times->begin());
    Choice choice{0, times->front(), times->front()};
    if ((*times)[best] < kFaster * times->front()) {
      // The fastest of many measurements is partly luck, so it is measured once more against the planner's.
      const machine::TimedKernel two[] = {timed.front(), timed[best]};
      const auto again = meter_.measure(trial, two);
      if (again && (*again)[1] < kFaster * (*again)[0]) choice = {best, (*again)[0], (*again)[1]};
    }
    ++out_.report.measured;
    out_.report.schedules += std::ssize(timed);
    out_.code.push_back(code[choice.which].object);
    if (store::Store* store = options_.compile.store) store->put(key_of(kernel, target_), note_of(kernel, choice));
    take(kernel, choice);
    return true;
  }

  void take(const Kernel& kernel, const Choice& c) {
    out_.report.changed += c.which != 0;
    out_.report.before_us += c.before_us * kernel.uses();
    out_.report.after_us += c.after_us * kernel.uses();
    choose(kernel, c.which);
  }

  schedule::Plan& plan_;
  const Target& target_;
  const TuneOptions& options_;
  machine::Meter& meter_;
  const double begin_;
  Tuned out_;
};

}  // namespace

Tuned tune(schedule::Plan& plan, const Target& target, const TuneOptions& options, machine::Meter& meter) {
  return Tuner(plan, target, options, meter).run();
}

Tuned tune_here(schedule::Plan& plan, const Target& target, double seconds, const codegen::CompileOptions& compile) {
  const Stopwatch watch;
  try {
    TuneOptions options{seconds, [&] { return watch.milliseconds() / 1000; }, compile, /*shows_progress=*/true};
    if (plan.device.type == DeviceType::CPU) {
      const auto meter = runtime::make_kernel_meter(target.l3_bytes);
      return tune(plan, target, options, *meter);
    }
    std::string why;
    if (!machine::Driver::get(&why)) VESTA_UNSUPPORTED("kernels cannot be measured: {}", why);
    const c10::OptionalDeviceGuard on(to_torch(plan.device));
    const auto meter = machine::make_meter(std::max<int>(0, plan.device.index), target.l2_bytes);
    return tune(plan, target, options, *meter);
  } catch (const Error& e) {
    Tuned none;
    none.report.why_none = e.what();
    none.finished = false;
    return none;
  }
}

}  // namespace vesta::pipeline
