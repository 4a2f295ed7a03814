// The text of recorded cases: JSON that people read, compare and attach to reports.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "pipeline/case.h"

namespace vesta::pipeline {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "vesta case 1";
constexpr std::array<std::string_view, 3> kOutcomes = {"unfinished", "compiled", "failed"};  // by Outcome

std::string scalar(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

bool is_list_of_numbers(const Json& value) {
  return value.is_array() &&
         std::ranges::none_of(value, [](const Json& v) { return v.is_structured() || v.is_string(); });
}

void write(std::string& out, const Json& value, size_t indent, bool in_list = false) {
  if (!value.is_structured()) {
    out += scalar(value);
    return;
  }
  // Lists of numbers and descriptions of inputs stand in one line.
  const auto is_flat = [](const Json& v) { return !v.is_structured() || is_list_of_numbers(v); };
  const bool flat = is_list_of_numbers(value) || (in_list && std::ranges::all_of(value, is_flat));
  const std::string margin = '\n' + std::string(indent + 2, ' ');
  out += value.is_array() ? '[' : '{';
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    if (!first) out += flat ? ", " : ",";
    first = false;
    if (!flat) out += margin;
    if (value.is_object()) out += Json(key).dump() + ": ";
    write(out, item, indent + 2, value.is_array());
  }
  if (!flat && !value.empty()) out += '\n' + std::string(indent, ' ');
  out += value.is_array() ? ']' : '}';
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// Options that decide what a compile makes: calls f(name, member) for each that always has a value.
template <class O, class F>
void for_each_option(O& o, F&& f) {
  f("packed_weights", o.packed_weights);
  f("numerics", o.numerics);
  f("skip_passes", o.skip_passes);
  f("rewrite_limit", o.rewrite_limit);
  f("kernels", o.kernels);
  f("cuda_graphs", o.cuda_graphs);
  f("copied_inputs", o.copied_inputs);
  f("cuda_graph_memory", o.cuda_graph_memory);
  f("autotune_seconds", o.autotune_seconds);
}

Json json_of(const CaseInput& in) {
  Json out = {{"name", in.name},       {"dtype", name(in.dtype)},        {"sizes", in.sizes},
              {"strides", in.strides}, {"device", to_string(in.device)}, {"alignment", in.alignment}};
  if (in.offset) out["offset"] = *in.offset;
  if (in.same_as >= 0) out["same_as"] = in.same_as;
  if (in.conj_neg.conj) out["conj"] = true;
  if (in.conj_neg.neg) out["neg"] = true;
  return out;
}

CaseInput input_of(const Json& json) {
  CaseInput in;
  json.at("name").get_to(in.name);
  in.dtype = parse_dtype(json.at("dtype").get<std::string>());
  json.at("sizes").get_to(in.sizes);
  json.at("strides").get_to(in.strides);
  in.device = parse_device(json.at("device").get<std::string>());
  json.at("alignment").get_to(in.alignment);
  if (json.contains("offset")) in.offset = json.at("offset").get<int64_t>();
  in.same_as = json.value("same_as", -1);
  in.conj_neg = {json.value("conj", false), json.value("neg", false)};
  return in;
}

Case case_of(const Json& json) {
  Case c;
  for (const Json& line : json.at("graph")) c.graph += line.get<std::string>() + '\n';
  for_each_option(c.options, [&](const char* name, auto& member) { json.at("options").at(name).get_to(member); });
  if (const auto limit = json.at("options").find("activation_memory"); limit != json.at("options").end()) {
    if (limit->is_number_integer())
      c.options.activation_memory = limit->get<int64_t>();
    else
      c.options.activation_memory = limit->get<double>();
  }
  json.at("inference").get_to(c.inference);
  json.at("deterministic").get_to(c.deterministic);
  for (const Json& in : json.at("inputs")) c.inputs.push_back(input_of(in));
  json.at("integers").get_to(c.integers);
  json.at("seed").get_to(c.seed);
  json.at("target").get_to(c.target);
  const auto outcome = json.at("outcome").get<std::string>();
  const auto it = std::ranges::find(kOutcomes, outcome);
  VESTA_USER_CHECK(it != kOutcomes.end(), "\"{}\" is no outcome of a compile", outcome);
  c.outcome = static_cast<Outcome>(it - kOutcomes.begin());
  if (json.contains("error")) {
    json.at("error").at("kind").get_to(c.error_kind);
    json.at("error").at("text").get_to(c.error);
  }
  for (const auto& [stage, ms] : json.at("ms").items()) {
    if (stage == "total")
      ms.get_to(c.total_ms);
    else
      c.stages.push_back({stage, ms.get<double>()});
  }
  return c;
}

}  // namespace

std::string to_text(const Case& c) {
  Json out = {{"outcome", kOutcomes[static_cast<size_t>(c.outcome)]}};
  if (c.outcome == Outcome::Failed) out["error"] = {{"kind", c.error_kind}, {"text", c.error}};
  out["ms"] = Json::object();
  const auto rounded = [](double ms) { return std::round(ms * 1e3) / 1e3; };
  for (const StageTime& s : c.stages) out["ms"][s.name] = rounded(out["ms"].value(s.name, 0.0) + s.ms);
  if (c.outcome == Outcome::Compiled) out["ms"]["total"] = rounded(c.total_ms);
  out["target"] = c.target;
  out["options"] = Json::object();
  for_each_option(c.options, [&](const char* name, const auto& member) { out["options"][name] = member; });
  if (const auto& limit = c.options.activation_memory)
    std::visit([&](auto number) { out["options"]["activation_memory"] = number; }, *limit);
  out["inference"] = c.inference;
  out["deterministic"] = c.deterministic;
  out["seed"] = c.seed;
  out["inputs"] = Json::array();
  for (const CaseInput& in : c.inputs) out["inputs"].push_back(json_of(in));
  out["integers"] = c.integers;
  out["graph"] = lines_of(c.graph);
  std::string text = "    ";
  write(text, out, 4);
  return text;
}

std::string to_text(const Versions& versions, const std::vector<std::string>& cases) {
  Json of = Json::object();
  for (const auto& [name, text] : versions) of[name] = text;
  std::string out = fmt::format("{{\n  \"format\": \"{}\",\n  \"versions\": ", kFormat);
  write(out, of, 2);
  out += ",\n  \"compiles\": [";
  for (size_t i = 0; i < cases.size(); ++i) out += (i ? ",\n" : "\n") + cases[i];
  return out + "\n  ]\n}\n";
}

CaseFile parse_cases(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    VESTA_USER_CHECK(json.is_object() && json.value("format", Json()) == kFormat,
                     "this is no file of recorded compiles of this version of Vesta (\"format\": \"{}\")", kFormat);
    CaseFile out;
    for (const auto& [name, value] : json.at("versions").items()) out.versions.emplace_back(name, value);
    for (const Json& c : json.at("compiles")) out.cases.push_back(case_of(c));
    return out;
  } catch (const Json::exception& e) {
    throw UserError(fmt::format("this is no file of recorded compiles: {}", e.what()));
  }
}

}  // namespace vesta::pipeline
