// Shape rules against recorded calls of ATen: dtype, sizes and strides of every result, and which calls are errors.
// The cases are data/op_types.jsonl (tools/gen_op_types.py); VESTA_OP_TYPES names another file.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "graph/graph.h"
#include "graph/rules/norm_forms.h"
#include "vesta/error.h"

namespace vesta::graph {
namespace {

using Json = nlohmann::json;

class Cases {
 public:
  TensorType type(const Json& j) {
    TensorType t;
    t.dtype = parse_dtype(j.at("t").get<std::string>());
    for (int64_t s : j.at("s")) t.sizes.emplace_back(s);
    for (int64_t s : j.at("d")) t.strides.emplace_back(s);
    return t;
  }
  Value* value(const Json& j) {
    values_.emplace_back().type = type(j);
    return &values_.back();
  }
  Arg arg(const SchemaArg& schema, const Json& j) {
    if (j.is_null()) {
      if (schema.type == ArgType::OptionalTensorList) return ValueList{};
      return None{};
    }
    if (j.is_boolean()) return j.get<bool>();
    if (j.is_string()) return j.get<std::string>();
    if (j.is_array()) return list(schema, j);
    if (j.contains("t")) return value(j);
    if (j.contains("i")) {
      // Expr holds 63 bits; every bound of a slice beyond them means "to the end".
      const int64_t v = std::min(j.at("i").get<int64_t>(), std::numeric_limits<int64_t>::max() / 2);
      if (schema.type == ArgType::DType) return DType::I64;  // randint's default, a number to Python
      if (schema.type == ArgType::Float) return static_cast<double>(v);
      if (schema.type == ArgType::IntList) return IntList(std::max(1, schema.list_size), Expr(v));
      return Expr(v);
    }
    if (j.contains("f")) return std::strtod(j.at("f").get<std::string>().c_str(), nullptr);
    if (j.contains("c"))
      return std::complex<double>(std::strtod(j["c"][0].get<std::string>().c_str(), nullptr),
                                  std::strtod(j["c"][1].get<std::string>().c_str(), nullptr));
    if (j.contains("dtype")) return parse_dtype(j.at("dtype").get<std::string>());
    if (j.contains("device")) return parse_device(j.at("device").get<std::string>());
    if (j.contains("format")) {
      const auto f = j.at("format").get<std::string>();
      return f == "contiguous"      ? MemoryFormat::Contiguous
             : f == "preserve"      ? MemoryFormat::Preserve
             : f == "channels_last" ? MemoryFormat::ChannelsLast
                                    : MemoryFormat::ChannelsLast3d;
    }
    throw std::runtime_error("unknown argument " + j.dump());
  }

 private:
  Arg list(const SchemaArg& schema, const Json& j) {
    switch (schema.type) {
      case ArgType::TensorList:
      case ArgType::OptionalTensorList: {
        ValueList out;
        for (const Json& e : j) out.push_back(e.is_null() ? nullptr : value(e));
        return out;
      }
      case ArgType::BoolList: {
        std::vector<bool> out;
        for (const Json& e : j) out.push_back(e.get<bool>());
        return out;
      }
      case ArgType::FloatList: {
        std::vector<double> out;
        for (const Json& e : j)
          out.push_back(e.contains("f") ? std::strtod(e["f"].get<std::string>().c_str(), nullptr)
                                        : e["i"].get<double>());
        return out;
      }
      default: {
        IntList out;
        for (const Json& e : j) out.emplace_back(e.at("i").get<int64_t>());
        return out;
      }
    }
  }
  std::deque<Value> values_;
};

class PlainGuards : public Guards {
 public:
  bool equal(Expr a, Expr b) override { return a.constant() == b.constant(); }
  bool less(Expr a, Expr b) override { return a.constant() < b.constant(); }
  int64_t specialize(Expr e) override { return e.constant(); }
};

std::string text(const TensorType& t) {
  std::string out(name(t.dtype));
  out += "[";
  for (Expr s : t.sizes) out += to_string(s) + " ";
  out += "|";
  for (Expr s : t.strides) out += to_string(s) + " ";
  return out + "]";
}

// Strides of a tensor without elements, or of a dimension of one element, show nothing of memory; they are compared
// too.
std::string compare(const Json& c) {
  const Op* op = find_op(c.at("op").get<std::string>());
  if (!op || !op->row) return "no row";
  Cases cases;
  std::vector<Arg> args;
  for (size_t i = 0; i < op->schema.args.size(); ++i) args.push_back(cases.arg(op->schema.args[i], c["args"][i]));
  PlainGuards guards;
  std::vector<TensorType> got;
  try {
    got = infer_types(*op, args, guards);
  } catch (const Unsupported&) {
    return "";  // such a call runs eager
  } catch (const UserError& e) {
    return c["out"].is_null() ? "" : std::string("refused: ") + e.what();
  }
  if (c["out"].is_null()) return "accepted: eager refuses it";
  const Json& want = c["out"];
  if (got.size() != want.size()) return "number of results";
  for (size_t i = 0; i < got.size(); ++i) {
    if (want[i].is_null()) {
      if (got[i].dtype != DType::Other) return "result " + std::to_string(i) + " is undefined in eager";
      continue;
    }
    const TensorType expected = cases.type(want[i]);
    if (text(got[i]) != text(expected)) return "got " + text(got[i]) + " want " + text(expected);
  }
  return "";
}

TEST(OpTypes, MatchRecordedCalls) {
  const char* other = std::getenv("VESTA_OP_TYPES");
  std::ifstream in(other ? other : VESTA_TEST_DATA "/op_types.jsonl");
  ASSERT_TRUE(in) << "no file of cases";
  std::map<std::string, int> wrong;
  size_t count = 0;
  for (std::string line; std::getline(in, line);) {
    const Json c = Json::parse(line);
    ++count;
    std::string problem;
    try {
      problem = compare(c);
    } catch (const std::exception& e) {
      problem = std::string("threw ") + e.what();
    }
    // An error that eager raises late (a value out of range, a missing kernel) is raised when the call runs.
    const bool late = problem.starts_with("accepted");
    if (late && !std::getenv("VESTA_OP_ERRORS")) continue;
    if (!problem.empty() && wrong[c["op"].get<std::string>()]++ < 3)
      ADD_FAILURE() << problem << "\n  " << line.substr(0, 400);
  }
  EXPECT_GT(count, 500u);
  for (const auto& [op, n] : wrong) std::printf("%5d %s\n", n, op.c_str());
}

}  // namespace
}  // namespace vesta::graph
