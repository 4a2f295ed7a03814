// The C++ entry point.
//
//   auto f = vesta::compile([](const at::Tensor& x, const at::Tensor& w) { return at::silu(at::mm(x, w)); });
//   at::Tensor y = f(x, w);
//
// The first call with new shapes, strides, dtypes or devices traces and compiles the callable; later calls run the
// compiled code. Results equal eager's. A program that Vesta cannot compile runs eager; report() counts such calls, the
// log names the reason once, and Options::strict makes it an error.
//
// A callable takes and returns at::Tensor, std::optional<at::Tensor>, std::vector, std::array, std::tuple, std::pair
// and std::map<std::string, ...> of these, integers, floating-point numbers, bools and strings. Numbers and strings are
// constants of a variant: another value compiles another variant. A c10::SymInt is an integer that may change without a
// new variant.
//
// Captured variables are part of the program. A captured tensor is read at each call, so writes to it in place
// are seen. Assigning another tensor to a captured variable, or changing a captured number, is not seen until reset().
// A module (std::shared_ptr<M> or a ModuleHolder) compiles its forward(), and train() and eval() on it are seen. A call
// that records gradients, for an input or a captured tensor, runs eager. Calls are thread-safe if the callable is.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "vesta/detail/flatten.h"
#include "vesta/detail/function.h"
#include "vesta/options.h"
#include "vesta/report.h"

namespace vesta {

namespace detail {

template <class P>
concept ModulePointer = requires(P p) {
  p->parameters();
  p->named_buffers();
  p->is_training();
};

// The forward() of a module as a callable.
template <class P>
struct ModuleCall {
  P module;
  template <class... A>
  decltype(auto) operator()(A&&... args) {
    return module->forward(std::forward<A>(args)...);
  }
};

template <class F>
void add_state(const F&, Call&) {}
template <class P>
void add_state(const ModuleCall<P>& f, Call& call) {
  call.tag(f.module->is_training() ? 'T' : 'E');
}

template <class A>
using Bare = std::remove_cv_t<std::remove_reference_t<A>>;
template <class A>
inline constexpr bool is_rebindable = std::is_same_v<A, at::Tensor&>;

}  // namespace detail

// A compiled callable. Copies share its variants.
template <class F>
class Compiled {
 public:
  Compiled(F f, Options options, std::string name)
      : f_(std::make_shared<F>(std::move(f))),
        function_(std::make_shared<detail::Function>(std::move(name), std::move(options))) {}

  template <class... A>
  auto operator()(A&&... args) const {
    using R = detail::Bare<std::invoke_result_t<F&, A...>>;
    detail::Call call;
    detail::add_state(*f_, call);
    (detail::Flat<detail::Bare<A>>::flatten(args, call), ...);
    const auto trace = [&](const std::vector<c10::IValue>& leaves, detail::Results& results,
                           std::vector<c10::IValue>& constants) {
      trace_once<R, A...>(leaves, call.tensors.size(), results, constants, args...);
    };
    detail::Results results{detail::borrow_values(), nullptr};
    if (!function_->run(call, std::cref(trace), results)) {
      detail::return_values(std::move(results.values));
      const detail::Function::EagerRun measured(*function_, call);
      return static_cast<R>(std::invoke(*f_, std::forward<A>(args)...));
    }
    if constexpr (std::is_void_v<R>) {
      detail::return_values(std::move(results.values));
    } else {
      detail::ResultReader reader{results.values, results.constants.get()};
      R out = detail::Flat<R>::read(reader);
      detail::return_values(std::move(results.values));
      return out;
    }
  }

  // What vesta::warm() does for one example. `sizes`: if not empty, those of the example's tensors, in their order.
  template <class... A>
  Warmed warm(const std::vector<std::vector<int64_t>>& sizes, A&&... args) const {
    using R = detail::Bare<std::invoke_result_t<F&, A...>>;
    detail::Call call;
    detail::add_state(*f_, call);
    (detail::Flat<detail::Bare<A>>::flatten(args, call), ...);
    detail::resize(call, sizes);
    const auto trace = [&](const std::vector<c10::IValue>& leaves, detail::Results& results,
                           std::vector<c10::IValue>& constants) {
      trace_once<R, A...>(leaves, call.tensors.size(), results, constants, args...);
    };
    return function_->warm(call, std::cref(trace));
  }

  // Lists the compiled variants, and the calls that ran eager with the reasons.
  FunctionReport report() const { return function_->report(); }
  std::string explain() const { return to_string(report()); }
  // Forgets all variants: the next call traces again.
  void reset() { function_->reset(); }

 private:
  template <class R, class... A>
  void trace_once(const std::vector<c10::IValue>& leaves, size_t tensor_count, detail::Results& results,
                  std::vector<c10::IValue>& constants, std::add_lvalue_reference_t<A>... args) const {
    detail::LeafReader reader{leaves, 0, tensor_count};
    // Braces fix the order: arguments are rebuilt from first to last.
    std::tuple<typename detail::Flat<detail::Bare<A>>::Stored...> stored{
        detail::Flat<detail::Bare<A>>::rebuild(args, reader)...};
    const auto before = stored;
    auto invoke = [&]<size_t... I>(std::index_sequence<I...>) -> decltype(auto) {
      return std::invoke(*f_, forward_stored<A>(std::get<I>(stored))...);
    };
    if constexpr (std::is_void_v<R>) {
      invoke(std::index_sequence_for<A...>{});
    } else {
      const R out = invoke(std::index_sequence_for<A...>{});
      detail::ResultWriter writer{results.values, constants};
      detail::Flat<R>::write(out, writer);
    }
    [&]<size_t... I>(std::index_sequence<I...>) {
      (check_not_rebound<A>(std::get<I>(before), std::get<I>(stored)), ...);
    }(std::index_sequence_for<A...>{});
  }

  // Passes a rebuilt argument on with the value category that the caller used.
  template <class A, class S>
  static decltype(auto) forward_stored(S& stored) {
    if constexpr (std::is_lvalue_reference_v<A>) {
      return static_cast<S&>(stored);
    } else {
      return static_cast<S&&>(stored);
    }
  }

  template <class A, class S>
  static void check_not_rebound(const S& before, const S& after) {
    if constexpr (detail::is_rebindable<A>) {
      if (!before.is_same(after)) {
        throw Unsupported("the callable assigns another tensor to one of its arguments; return it instead");
      }
    }
  }

  std::shared_ptr<F> f_;
  std::shared_ptr<detail::Function> function_;
};

template <class F>
auto compile(F&& f, Options options = {}) {
  using Callable = detail::Bare<F>;
  if constexpr (detail::ModulePointer<Callable>) {
    std::string name = f->name();
    return Compiled<detail::ModuleCall<Callable>>({std::forward<F>(f)}, std::move(options), std::move(name));
  } else {
    return Compiled<std::decay_t<F>>(std::forward<F>(f), std::move(options), {});
  }
}

// Compiles what a call with such arguments needs, packs its weights, and runs nothing of it: for servers, before the
// first request. The callable is called on tensors of a trace, which have no values. It waits for the compile, whatever
// Options::deadline_ms and Options::background say.
template <class F, class... A>
Warmed warm(const Compiled<F>& f, A&&... args) {
  return f.warm({}, std::forward<A>(args)...);
}

// The same for several calls like this one, whose tensors take other sizes: for each call the sizes of each of its
// tensors, in the order of the arguments. Two sizes that differ make code for all sizes, as such calls do. Throws
// UserError if a call does not have as many sizes as tensors.
template <class F, class... A>
std::vector<Warmed> warm_shapes(const Compiled<F>& f, const std::vector<std::vector<std::vector<int64_t>>>& shapes,
                                A&&... args) {
  std::vector<Warmed> out;
  for (const auto& sizes : shapes) out.push_back(f.warm(sizes, args...));
  return out;
}

}  // namespace vesta
