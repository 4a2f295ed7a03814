// Saved programs that were made by hand, loaded and called.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include "interop/torch_release.h"
#include "program/file.h"
#include "store_folder.h"
#include "vesta/error.h"
#include "vesta/load.h"

namespace {

using namespace vesta;
using vesta::detail::Value;

class Loaded : public vesta::testing::StoreTest {
 protected:
  // f(x), of one variant that computes nothing.
  static program::Program identity() {
    program::Program p;
    p.name = "f";
    p.parameters = {{"x", program::Parameter::How::Plain, {}}};
    program::Variant v;
    v.places = {{-1, 0, {}}};
    v.makes = {{program::Make::What::Argument, {}, 0, {}}};
    v.artifact.is_static = true;
    v.origin = {"", true, "fast", 0, true, host_target(), torch_release()};
    p.variants = {v};
    return p;
  }
  vesta::detail::Program load(const program::Program& p) const {
    std::filesystem::create_directories(folder_);
    const std::string path = folder_ / "p.vesta";
    program::save(p, std::vector<program::Memory>(p.storages.size()), path);
    return {path, {}};
  }
};

// No check of the variant says that its argument is there.
TEST_F(Loaded, AResultThatIsAnArgumentNeedsIt) {
  const vesta::detail::Program f = load(identity());
  EXPECT_EQ(std::get<int64_t>(f.call({Value{int64_t{3}}}).value), 3);
  try {
    f.call({});
    ADD_FAILURE() << "nothing was given and something came back";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("the result contains x, which was not given"), std::string::npos) << e.what();
  }
}

// This process has neither a driver nor a CUDA build of PyTorch.
TEST_F(Loaded, AGpuThatIsNotHereIsNamed) {
  const auto message = [&](const program::Program& p) -> std::string {
    try {
      load(p);
    } catch (const UserError& e) {
      return e.what();
    }
    return {};
  };
  program::Program code = identity(), weight = identity();
  artifact::InputDesc x;
  x.type.device = {DeviceType::CUDA, 0};
  artifact::Buffer b;
  b.role = artifact::Role::Input;
  b.type = x.type;
  b.input = 0;
  b.bytes = {{{artifact::Size::Code::Constant, 0}}};
  artifact::Artifact& a = code.variants[0].artifact;
  a.device = x.type.device;
  a.inputs = {x};
  a.buffers = {b};
  a.arena.offsets = {-1};
  code.variants[0].inputs = {{0, -1, false}};
  const std::string why =
      c10::impl::hasDeviceGuardImpl(c10::kCUDA) ? "but there is no GPU here" : "but PyTorch has no CUDA here";
  EXPECT_NE(message(code).find("p.vesta cannot run here: it was saved for cuda:0, " + why), std::string::npos)
      << message(code);
  weight.weights = {{"w", DType::F32, {DeviceType::CUDA, 3}, {2}, {1}, 0, 0}};
  weight.storages = {{8, -1, 0}};
  EXPECT_NE(message(weight).find("it was saved for cuda:3, " + why), std::string::npos) << message(weight);
}

TEST_F(Loaded, IntegersAreTold) {
  program::Program p = identity();
  artifact::Output integer, none;
  integer.kind = artifact::OutputKind::Integer;
  integer.integer = {{{artifact::Size::Code::Constant, 7}}};
  none.kind = artifact::OutputKind::None;
  p.variants[0].artifact.outputs = {integer, none};
  p.variants[0].makes = {{program::Make::What::Output, {}, 0, {}},
                         {program::Make::What::Output, {}, 1, {}},
                         {program::Make::What::Tuple, {}, 0, {0, 1}}};
  const vesta::detail::Program f = load(p);
  EXPECT_NE(f.describe().find("-> (an integer, None)"), std::string::npos) << f.describe();
  const Value out = f.call({Value{int64_t{3}}});
  const auto& items = std::get<Value::Tuple>(out.value).items;
  EXPECT_EQ(std::get<int64_t>(items.at(0).value), 7);
  EXPECT_TRUE(std::holds_alternative<Value::None>(items.at(1).value));
}

}  // namespace
