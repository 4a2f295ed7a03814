#include "pipeline/key.h"

#include <ATen/Version.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include "artifact/bytes.h"
#include "base/digest.h"
#include "codegen/codegen.h"
#include "vesta_compiler_digest.h"

namespace vesta::pipeline {
namespace {

std::string text_of(const artifact::InputFacts& facts) {
  std::string out;
  for (const auto& group : facts.same) out += fmt::format("one tensor: {}; ", fmt::join(group, " "));
  for (const auto& [input, offset] : facts.offsets) out += fmt::format("input {} starts at {}; ", input, offset);
  for (const auto& [input, conj_neg] : facts.conj_neg)
    out += fmt::format("input {} has bits{}{}; ", input, conj_neg.conj ? " conj" : "", conj_neg.neg ? " neg" : "");
  return out;
}

// The options that a compile reads. Others, such as the limit of variants, only decide whether there is a compile.
std::string text_of(const Options& o, const Traced& traced, DeviceType device) {
  std::string out =
      fmt::format("{}, {}packed_weights {}, numerics {}, skip_passes [{}], rewrite_limit {}, kernels {}",
                  traced.inference ? "inference" : "training", traced.deterministic ? "deterministic, " : "",
                  o.packed_weights, o.numerics, fmt::join(o.skip_passes, " "), o.rewrite_limit, o.kernels);
  if (o.autotune_seconds > 0) out += ", measured";
  if (o.cuda_graphs && device == DeviceType::CUDA) out += ", recorded";
  return out;
}

// Operators, their arguments and their kernels' results depend on torch's build. at::show_config() has all of this, but
// it calls CUDA's runtime, and the children of a process that has called it cannot use a GPU.
const std::string& text_of_torch() {
  static const auto* text =
      new std::string(fmt::format("{} {}{}", TORCH_VERSION,
                                  digest({at::get_cxx_flags(), at::get_mkl_version(), at::get_mkldnn_version(),
                                          at::get_openmp_version(), at::get_cpu_capability()}),
                                  c10::impl::hasDeviceGuardImpl(c10::kCUDA) ? " with CUDA" : ""));
  return *text;
}

}  // namespace

const std::string& compiler() {
  static const auto* text =
      new std::string(fmt::format("format {}, sources {}", artifact::kFormat, VESTA_COMPILER_DIGEST));
  return *text;
}

artifact::Key key_of(const std::string& text, const Traced& traced, const Options& options, const Target& target) {
  return {{"graph", text},
          {"facts", text_of(traced.facts)},
          {"options", text_of(options, traced, target.device)},
          {"target", plan_text(target)},
          {"generator", codegen::fingerprint(target)},
          {"compiler", compiler()},
          {"torch", text_of_torch()}};
}

std::string name_of(const artifact::Key& key) {
  std::string all;
  for (const auto& [name, value] : key) all += fmt::format("{} {}:{}\n", name, value.size(), value);
  return "artifact_" + digest({all});
}

}  // namespace vesta::pipeline
