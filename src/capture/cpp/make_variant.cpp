#include "capture/cpp/make_variant.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>

#include "base/check.h"
#include "base/compile_memory.h"
#include "base/events.h"
#include "base/log.h"
#include "base/stage_clock.h"
#include "base/totals.h"
#include "capture/entry/compile_time.h"
#include "interop/torch_types.h"
#include "pipeline/pipeline.h"
#include "trace/trace.h"

namespace vesta::capture::functions {
namespace {

using Clock = std::chrono::steady_clock;
using Dimensions = std::vector<std::vector<bool>>;  // which are symbolic: by tensor, then by integer

// An option; what the environment says in place of its default.
int64_t bound(int64_t Options::* option, const char* variable, const Options& options) {
  int64_t value = options.*option;
  if (const char* text = std::getenv(variable); text && value == Options().*option)
    std::from_chars(text, text + std::strlen(text), value);
  return value;
}

Options with_environment(Options options) {
  options.deadline_ms = bound(&Options::deadline_ms, "VESTA_DEADLINE_MS", options);
  options.compile_memory = bound(&Options::compile_memory, "VESTA_COMPILE_MEMORY", options);
  return options;
}

struct Maker {
  const FunctionInfo& info;
  const Options options;  // with what the environment says
  const detail::Call& call;
  const std::string& key;
  uint64_t context;
  const detail::Function::Program& program;
  Clock::time_point end;  // the call waits no longer
  double enough_ms;

  std::shared_ptr<FunctionVariant> empty_variant() const {
    auto v = std::make_shared<FunctionVariant>();
    v->key = key;
    v->context = context;
    v->shapes = shapes_of({call.tensors.data(), call.tensors.size()});
    v->integers.assign(call.integers.begin(), call.integers.end());
    for (const auto& s : v->shapes) v->dynamic.emplace_back(s.sizes.size(), false);
    for (size_t i = 0; i < v->integers.size(); ++i) v->dynamic.emplace_back(1, false);
    return v;
  }

  std::shared_ptr<FunctionVariant> eager_variant(std::string reason, std::exception_ptr error) const {
    auto v = empty_variant();
    v->error = std::move(error);
    v->eager_reason = std::move(reason);
    artifact::Artifact a;
    a.is_static = true;
    auto constants = [](const std::vector<int64_t>& list) {
      std::vector<artifact::Size> out;
      for (int64_t x : list) out.push_back({{{artifact::Size::Code::Constant, x}}});
      return out;
    };
    for (const auto& s : v->shapes) {
      a.inputs.push_back(
          {.type = {.dtype = to_dtype(s.dtype), .sizes = constants(s.sizes), .strides = constants(s.strides)}});
    }
    for (size_t i = 0; i < call.tensors.size(); ++i) {
      const ConjNegBits conj_neg = conj_neg_of(*call.tensors[i].unsafeGetTensorImpl());
      if (conj_neg.any()) a.facts.conj_neg.emplace_back(static_cast<int>(i), conj_neg);
    }
    v->executable = std::make_shared<const runtime::Executable>(std::move(a));
    return v;
  }

  std::vector<trace::TraceInput> trace_inputs(const Dimensions& dynamic) const {
    std::vector<trace::TraceInput> inputs;
    for (size_t i = 0; i < call.tensors.size(); ++i) {
      trace::TraceInput in{.value = call.tensors[i], .name = fmt::format("arg{}", i), .dynamic = dynamic[i]};
      if (i < info.tensors.size()) {
        const detail::InputInfo& given = info.tensors[i];
        if (!given.name.empty()) in.name = given.name;
        // An inference tensor has no version counter, so nothing derived from it could be kept.
        if (given.parameter && !call.tensors[i].is_inference()) in.kind = graph::InputKind::Parameter;
        if (given.dynamic_given) in.symbol_label = given.symbol_label;
      }
      inputs.push_back(std::move(in));
    }
    for (size_t i = 0; i < call.integers.size(); ++i) {
      trace::TraceInput in{
          .value = call.integers[i], .name = fmt::format("int{}", i), .dynamic = dynamic[call.tensors.size() + i]};
      if (i < info.integers.size() && info.integers[i].dynamic_given) in.symbol_label = info.integers[i].symbol_label;
      inputs.push_back(std::move(in));
    }
    return inputs;
  }

  std::shared_ptr<FunctionVariant> trace_and_compile(const Dimensions& dynamic) const {
    auto v = empty_variant();
    events::Ids ids = events::current();
    ids.segment = info.id;
    ids.variant = v->id = events::new_id();
    const events::Within within(ids);
    const events::Span span(events::Type::Capture, info.name);
    std::optional<StageClock> clock("trace");
    v->dynamic = dynamic;
    auto constants = std::make_shared<std::vector<c10::IValue>>();
    const auto traced_with = [&](bool gradients) {
      return trace::trace(
          trace_inputs(dynamic),
          [&](const std::vector<c10::IValue>& leaves) -> std::vector<c10::IValue> {
            detail::Results results;
            constants->clear();
            program(leaves, results, *constants);
            return std::move(results.values);
          },
          {.gradients = gradients, .end = end_of_trace(end), .memory = compile_budget(options.compile_memory)});
    };
    trace::Traced traced;
    try {
      traced = traced_with(false);
    } catch (const trace::NeedsGradients&) {
      traced = traced_with(true);
    }
    v->constants = std::move(constants);
    v->lifted = std::move(traced.lifted);
    v->in_grad_mode = traced.in_grad_mode;
    v->views = std::move(traced.views);
    for (const at::Tensor& t : traced.inputs)
      v->require_grad.push_back(t.defined() && t.unsafeGetTensorImpl()->requires_grad());
    pipeline::Traced facts;
    facts.facts = {std::move(traced.same_inputs), std::move(traced.storage_offsets), std::move(traced.conj_neg)};
    facts.op_count = traced.op_count;
    facts.trace_ms = clock->milliseconds();
    clock.reset();
    facts.deterministic = at::globalContext().deterministicAlgorithms();
    if (traced.joint) {
      facts.inference = false;
      v->pending = pipeline::start_training({.graph = std::move(traced.graph),
                                             .joint = *std::move(traced.joint),
                                             .unseen_writes = std::move(traced.unseen_writes)},
                                            options, std::move(facts), end);
    } else {
      v->pending = pipeline::start_compile(std::move(traced.graph), options, std::move(facts), end);
    }
    v->packing = std::make_shared<WeightPacking>(options);
    v->take_compiled();
    totals::of(totals::Count::Variants).add();
    return v;
  }

  Dimensions dynamic_for(const FunctionVariantList& list) const {
    Dimensions dynamic;
    if (info.options.dynamic == false) {
      dynamic = empty_variant()->dynamic;
    } else {
      dynamic = choose_dynamic(call, key, context, list, info.options.dynamic == true);
    }
    auto given = [&](const std::vector<detail::InputInfo>& inputs, size_t first) {
      for (size_t i = 0; i < inputs.size() && first + i < dynamic.size(); ++i) {
        if (!inputs[i].dynamic_given) continue;
        for (size_t d = 0; d < dynamic[first + i].size() && d < inputs[i].dynamic.size(); ++d) {
          if (inputs[i].dynamic[d]) dynamic[first + i][d] = true;
        }
      }
    };
    given(info.tensors, 0);
    given(info.integers, call.tensors.size());
    return dynamic;
  }

  std::shared_ptr<FunctionVariant> make(const FunctionVariantList& list) const {
    Dimensions dynamic = dynamic_for(list);
    const bool symbolic = std::any_of(dynamic.begin(), dynamic.end(), [](const std::vector<bool>& d) {
      return std::find(d.begin(), d.end(), true) != d.end();
    });
    std::string reason;
    std::exception_ptr error;  // Vesta's own; null for the program's
    std::optional<LateTrace> late;
    std::string failure;  // an error of Vesta's own, not a refusal
    for (const bool with_symbols : {true, false}) {
      if (with_symbols && !symbolic) continue;
      if (!with_symbols) dynamic = empty_variant()->dynamic;
      try {
        auto v = trace_and_compile(dynamic);
        v->failure = failure;
        return v;
      } catch (const detail::Interrupted& interrupted) {
        std::rethrow_exception(interrupted.cause);
      } catch (const NeedsValue& e) {
        reason = fmt::format("needs a value: {}", e.what());
        error = std::current_exception();
        break;  // constants in place of symbols do not help
      } catch (const trace::DeadlinePassed& e) {
        reason = fmt::format("{} ({})", e.what(), deadline_text(options.deadline_ms, enough_ms));
        error = std::make_exception_ptr(Unsupported(reason));
        late = {.deadline_ms = options.deadline_ms, .operators = e.operators};
        break;
      } catch (const OverBudget& e) {
        reason = e.what();
        error = std::current_exception();
        late.emplace();
        break;
      } catch (const Unsupported& e) {
        reason = e.what();
        error = std::current_exception();
      } catch (const InternalError& e) {
        reason = e.what();
        error = std::current_exception();
        log::warn_once(fmt::format("vesta: {}", e.what()));
        failure = reason;
      } catch (const std::exception& e) {
        // Possibly the program's own error: the eager call raises it as it is.
        const std::string text = e.what();
        reason = "while tracing: " + text.substr(0, text.find('\n'));
        error = nullptr;
        if (dynamic_cast<const std::bad_alloc*>(&e)) failure = reason;
      }
    }
    auto eager = eager_variant(reason, error);
    eager->late = late;
    return eager;
  }
};

}  // namespace

std::shared_ptr<FunctionVariant> make_variant(const FunctionInfo& info, const detail::Call& call,
                                              const std::string& key, uint64_t context,
                                              const FunctionVariantList& before,
                                              const detail::Function::Program& program, double enough_ms) {
  const Options options = with_environment(info.options);
  const Clock::time_point begin = Clock::now();
  CompileTime compile_time;
  const Maker maker{info, options, call, key, context, program, compile_time.end(options.deadline_ms), enough_ms};
  std::shared_ptr<FunctionVariant> made = maker.make(before);
  const double took_ms = compile_time.add_since(begin);
  if (made->late) made->late->ms = took_ms;
  return made;
}

}  // namespace vesta::capture::functions
