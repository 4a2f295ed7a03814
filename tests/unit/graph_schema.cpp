#include "graph/schema.h"

#include <gtest/gtest.h>

#include "vesta/error.h"

namespace vesta::graph {
namespace {

TEST(Schema, ReadsNamesKindsAndDefaults) {
  const Schema s = parse_schema("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  EXPECT_EQ(s.name, "aten::add.Tensor");
  ASSERT_EQ(s.args.size(), 3u);
  EXPECT_EQ(s.args[0].type, ArgType::Tensor);
  EXPECT_FALSE(s.args[1].keyword_only);
  EXPECT_TRUE(s.args[2].keyword_only);
  EXPECT_EQ(s.args[2].type, ArgType::Scalar);
  EXPECT_EQ(s.args[2].default_value, Arg(Expr(1)));
  ASSERT_EQ(s.returns.size(), 1u);
  EXPECT_EQ(s.index_of("other"), 1);
  EXPECT_EQ(s.index_of("missing"), -1);
  EXPECT_FALSE(s.mutates());
  EXPECT_FALSE(s.is_view());
}

TEST(Schema, ReadsAliasSets) {
  const Schema view =
      parse_schema("aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]");
  EXPECT_TRUE(view.args[0].aliased);
  EXPECT_EQ(view.args[0].alias_set, "a");
  EXPECT_EQ(view.returns[0].type, ArgType::TensorList);
  EXPECT_TRUE(view.is_view());
  EXPECT_FALSE(view.mutates());

  const Schema in_place =
      parse_schema("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)");
  EXPECT_TRUE(in_place.args[0].mutated);
  EXPECT_TRUE(in_place.returns[0].mutated);
  EXPECT_TRUE(in_place.mutates());
  EXPECT_FALSE(in_place.is_view());

  const Schema lists = parse_schema("aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()");
  EXPECT_EQ(lists.args[0].type, ArgType::TensorList);
  EXPECT_TRUE(lists.mutates());
  EXPECT_TRUE(lists.returns.empty());
}

TEST(Schema, ReadsListsAndOptionals) {
  const Schema s = parse_schema(
      "x::y(int[2] stride=1, SymInt[2] padding=[0, 3], Tensor?[] indices, float[]? scales=None, Scalar?[] scalars, "
      "bool[3] mask, "
      "str? algorithm, Tensor? bias=None, Generator? generator=None, int[1]? dim=None) -> (Tensor values, Tensor "
      "indices)");
  EXPECT_EQ(s.args[0].list_size, 2);
  EXPECT_EQ(s.args[0].default_value, Arg(IntList{1, 1}));
  EXPECT_EQ(s.args[1].default_value, Arg(IntList{0, 3}));
  EXPECT_EQ(s.args[2].type, ArgType::OptionalTensorList);
  EXPECT_FALSE(s.args[2].optional);
  EXPECT_EQ(s.args[3].type, ArgType::FloatList);
  EXPECT_TRUE(s.args[3].optional);
  EXPECT_TRUE(is_none(s.args[3].default_value));
  EXPECT_EQ(s.args[4].type, ArgType::ScalarList);
  EXPECT_EQ(s.args[5].type, ArgType::BoolList);
  EXPECT_EQ(s.args[6].type, ArgType::String);
  EXPECT_EQ(s.args[7].type, ArgType::OptionalTensor);
  EXPECT_EQ(s.args[8].type, ArgType::Generator);
  EXPECT_TRUE(s.args[9].optional);
  EXPECT_EQ(s.returns[1].name, "indices");
}

TEST(Schema, ReadsDefaultsOfEveryType) {
  const Schema s = parse_schema(
      "x::y(float eps=1, float p=0.5, bool b=True, str mode=\"mean\", ScalarType? dtype=None, ScalarType d=6, "
      "MemoryFormat f=contiguous_format, float big=-inf, int n=-100, Scalar beta=1.5, int[] dims=[], float "
      "small=1e-05) -> Tensor Y");
  EXPECT_EQ(s.args[0].default_value, Arg(1.0));
  EXPECT_EQ(s.args[1].default_value, Arg(0.5));
  EXPECT_EQ(s.args[2].default_value, Arg(true));
  EXPECT_EQ(s.args[3].default_value, Arg(std::string("mean")));
  EXPECT_TRUE(is_none(s.args[4].default_value));
  EXPECT_EQ(s.args[5].default_value, Arg(DType::F32));
  EXPECT_EQ(s.args[6].default_value, Arg(MemoryFormat::Contiguous));
  EXPECT_EQ(s.args[7].default_value, Arg(-HUGE_VAL));
  EXPECT_EQ(s.args[8].default_value, Arg(Expr(-100)));
  EXPECT_EQ(s.args[9].default_value, Arg(1.5));
  EXPECT_EQ(s.args[10].default_value, Arg(IntList{}));
  EXPECT_EQ(s.args[11].default_value, Arg(1e-5));
}

TEST(Schema, ReadsTypesItDoesNotModel) {
  const Schema s =
      parse_schema("x::y(Dict(str, Tensor) d, (int, float) pair, t[] list, __torch__.classes.a.B c, ...) -> ...");
  ASSERT_EQ(s.args.size(), 4u);
  for (const SchemaArg& a : s.args) EXPECT_EQ(a.type, ArgType::Other) << a.name;
}

TEST(Schema, NamesThePositionOfAnError) {
  try {
    parse_schema("aten::add(Tensor self -> Tensor");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("position 22"), std::string::npos) << e.what();
  }
  EXPECT_THROW(parse_schema(""), UserError);
  EXPECT_THROW(parse_schema("a::b(int x=) -> Tensor"), UserError);
}

}  // namespace
}  // namespace vesta::graph
