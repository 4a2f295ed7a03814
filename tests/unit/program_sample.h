// A saved program with every kind of part.
#pragma once

#include "artifact_sample.h"
#include "program/program.h"

namespace vesta::testing {

inline program::Program program_sample() {
  using What = program::Check::What;
  using Made = program::Make::What;
  program::Program p;
  p.name = "f";
  p.parameters = {{"x", program::Parameter::How::Plain, {}},
                  {"how", program::Parameter::How::KeywordOnly, program::Scalar(std::string("sum"))}};
  p.weights = {{"w", DType::BF16, {}, {4}, {1}, 0, 16}, {"v", DType::F32, {}, {2, 3}, {3, 1}, 0, 0}};
  p.storages = {{64, -1, 0}};
  program::Variant v;
  v.places = {{-1, 0, {}}, {0, 1, {}}, {0, 0, program::Scalar(int64_t{7})}, {-1, 1, {}}};
  v.checks = {{What::Kind, 0, program::Kind::Dict, {}, 0, {}},
              {What::Length, 0, program::Kind::None, {}, 2, {}},
              {What::Keys, 0, program::Kind::None, {}, 0, {program::Scalar(), program::Scalar(int64_t{7})}},
              {What::Equals, 3, program::Kind::None, program::Scalar(std::string("sum")), 0, {}},
              {What::Different, 1, program::Kind::None, {}, 2, {}}};
  v.inputs = {{1, -1, false}, {-1, 0, false}};
  v.integers = {2, 2, 2};
  v.makes = {{Made::Output, {}, 0, {}},
             {Made::Constant, program::Scalar(std::complex<double>(1, -0.0)), 0, {}},
             {Made::Constant, program::Scalar(program::Name{"torch.float16"}), 0, {}},
             {Made::Argument, {}, 1, {}},
             {Made::Weight, {}, 1, {}},
             {Made::Dict, {}, 0, {1, 0, 2, 3}},
             {Made::Tuple, {}, 0, {5, 4}}};
  v.artifact = sample();
  v.origin = {"graph text", true, "fast", 1 << 20, false, host_target(), "2.13", false, -1, 1 << 30, true};
  p.variants = {v};
  p.assumed = {"self.training == False"};
  return p;
}

}  // namespace vesta::testing
