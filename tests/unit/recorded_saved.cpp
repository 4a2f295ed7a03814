// Saved programs of a GPU, on a driver, an allocator and operators that replace one's.
#include <gtest/gtest.h>

#include <fstream>

#include "interop/torch_release.h"
#include "interop/torch_types.h"
#include "machine/cuda/device_target.h"
#include "program/file.h"
#include "recorded_program.h"
#include "runtime/weights.h"
#include "store_folder.h"
#include "vesta/error.h"
#include "vesta/load.h"

namespace {

using namespace vesta;
using namespace vesta::testing;
using vesta::detail::Value;

constexpr int64_t kSide = 4;

class SavedForAGpu : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "p.vesta";
  }

  // A program f(x) whose other inputs are `weights`; their storages as they are.
  static program::Program program_of(artifact::Artifact a, const std::vector<at::Tensor>& weights, int arch = 90) {
    program::Program p;
    p.name = "f";
    p.parameters = {{"x", program::Parameter::How::Plain, {}}};
    program::Variant v;
    v.places = {{-1, 0, {}}};
    v.inputs = {{0, -1, false}};
    std::vector<const void*> storages;
    for (size_t i = 0; i < weights.size(); ++i) {
      const at::Tensor& t = weights[i];
      const void* const storage = t.storage().unsafeGetStorageImpl();
      const auto at = std::find(storages.begin(), storages.end(), storage);
      const int number = static_cast<int>(at - storages.begin());
      if (at == storages.end()) {
        storages.push_back(storage);
        p.storages.push_back({static_cast<int64_t>(t.storage().nbytes()), -1, 0});
      }
      p.weights.push_back({"w" + std::to_string(i), to_dtype(t.scalar_type()), to_device(t.device()), t.sizes().vec(),
                           t.strides().vec(), number, t.storage_offset()});
      v.inputs.push_back({-1, static_cast<int>(i), false});
    }
    v.makes = {{program::Make::What::Output, {}, 0, {}}};
    v.artifact = std::move(a);
    v.origin = {"", true, "fast", 0, true, machine::cuda_target_of(arch), torch_release()};
    p.variants = {v};
    return p;
  }
  void save(const program::Program& p, const std::vector<at::Tensor>& weights) const {
    std::vector<program::Memory> memory(p.storages.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto k = static_cast<size_t>(p.weights[i].storage);
      memory[k] = runtime::to_be_saved(weights[i].storage(), 0, p.storages[k].bytes);
    }
    program::save(p, memory, path_);
  }
  std::string why_not(const LoadOptions& options = {}) const {
    try {
      const vesta::detail::Program loaded(path_, options);
    } catch (const UserError& e) {
      return e.what();
    }
    return {};
  }
  static at::Tensor call(const vesta::detail::Program& p, const at::Tensor& x) {
    return std::get<at::Tensor>(p.call({Value{x}}).value);
  }
  std::string path_;
};

::testing::AssertionResult all_are(const at::Tensor& t, float want) {
  if (!t.is_cuda()) return ::testing::AssertionFailure() << "it is on " << t.device();
  const at::Tensor found = on_cpu(t);
  if (found.equal(at::full_like(found, want))) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << found << " is not " << want;
}

// y = 2 * (x @ w) + b.
struct Layer {
  GpuProgram p{kSide};
  Layer() {
    const int x = p.input(), w = p.input(true), b = p.input(true), u = p.returned(), y = p.output();
    p.mm(x, w, u);
    p.mix(u, b, y);
    p.show(y);
  }
  static float of(float x, float w, float b) { return 2 * kSide * x * w + b; }
};

TEST_F(SavedForAGpu, WeightsGoBackAndCallsAreRecorded) {
  Layer layer;
  {
    const std::vector<at::Tensor> weights = {layer.p.tensor(0.5F), layer.p.tensor(3)};
    save(program_of(layer.p.finish(), weights), weights);
  }
  LoadOptions checked;
  checked.check_weights = true;
  const vesta::detail::Program f(path_, checked);
  const int64_t before = gpu::calls().graph_launches;
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(all_are(call(f, layer.p.tensor(static_cast<float>(i))), Layer::of(static_cast<float>(i), 0.5F, 3)));
  EXPECT_EQ(gpu::calls().graph_launches - before, 4);
  // Weights are the caller's to change, as those of the CPU.
  for (const auto& [name, weight] : f.weights()) {
    EXPECT_TRUE(weight.is_cuda());
    at::Tensor(weight).mul_(2);
  }
  EXPECT_TRUE(all_are(call(f, layer.p.tensor(1)), Layer::of(1, 1, 6)));
  // The file keeps what it has.
  EXPECT_TRUE(all_are(call(vesta::detail::Program(path_, {}), layer.p.tensor(1)), Layer::of(1, 0.5F, 3)));
}

TEST_F(SavedForAGpu, OptionsOfGraphsAreKept) {
  Layer layer;
  const std::vector<at::Tensor> weights = {layer.p.tensor(1), layer.p.tensor(1)};
  program::Program p = program_of(layer.p.finish(), weights);
  p.variants[0].origin.cuda_graphs = false;
  save(p, weights);
  const vesta::detail::Program f(path_, {});
  const int64_t before = gpu::calls().graph_launches;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(all_are(call(f, layer.p.tensor(1)), Layer::of(1, 1, 1)));
  EXPECT_EQ(gpu::calls().graph_launches, before);
}

// w is a view into the middle of the storage that b begins; both share it again.
TEST_F(SavedForAGpu, TiedWeightsStayTied) {
  constexpr int64_t kCount = kSide * kSide;
  Layer layer;
  const at::Tensor whole = at::ones({3, kCount}).to(at::Device(at::kCUDA, 0));
  const std::vector<at::Tensor> weights = {at::as_strided(whole, {kSide, kSide}, {kSide, 1}, kCount),
                                           at::as_strided(whole, {kSide, kSide}, {kSide, 1}, 0)};
  save(program_of(layer.p.finish(), weights), weights);
  const vesta::detail::Program f(path_, {});
  const auto loaded = f.weights();
  EXPECT_EQ(loaded[0].second.storage().unsafeGetStorageImpl(), loaded[1].second.storage().unsafeGetStorageImpl());
  EXPECT_EQ(loaded[0].second.storage_offset(), kCount);
  EXPECT_TRUE(all_are(call(f, layer.p.tensor(1)), Layer::of(1, 1, 1)));
  at::as_strided(loaded[1].second, {2 * kCount}, {1}, 0).mul_(3);
  EXPECT_TRUE(all_are(call(f, layer.p.tensor(1)), Layer::of(1, 3, 3)));
}

// y = 2 * x + n, with n in the CPU's memory, and a buffer of the program that is written.
TEST_F(SavedForAGpu, WeightsOfBothKindsAndWrittenOnes) {
  GpuProgram p(kSide);
  const int x = p.input(), n = p.number(), total = p.input(true), y = p.output();
  p.mix(x, n, y);
  p.mix(x, n, total);
  p.written(total);
  p.show(y);
  const std::vector<at::Tensor> weights = {at::scalar_tensor(5.0F), p.tensor(0)};
  save(program_of(p.finish(), weights), weights);
  const vesta::detail::Program f(path_, {}), other(path_, {});
  for (float i = 1; i < 5; ++i) {
    EXPECT_TRUE(all_are(call(f, p.tensor(i)), 2 * i + 5));
    EXPECT_TRUE(all_are(f.weights().at(1).second, 2 * i + 5));
  }
  EXPECT_TRUE(f.weights().at(0).second.is_cpu());
  EXPECT_TRUE(all_are(other.weights().at(1).second, 0));
}

TEST_F(SavedForAGpu, EmptyWeightsAndOtherTypes) {
  const at::Device device(at::kCUDA, 0);
  GpuProgram p(kSide);
  const int x = p.input(), b = p.input(true), y = p.output();
  p.mix(x, b, y);
  p.show(y);
  const std::vector<at::Tensor> weights = {p.tensor(1), at::empty({0, 3}).to(device),
                                           at::tensor({1, 2, 3}, at::kLong).to(device),
                                           at::tensor({1.5F, 2.5F}).to(at::kHalf).to(device)};
  program::Program saved = program_of(p.finish(), weights);
  saved.variants[0].inputs.resize(2);
  save(saved, weights);
  const vesta::detail::Program f(path_, {});
  EXPECT_TRUE(all_are(call(f, p.tensor(2)), 5));
  const auto loaded = f.weights();
  for (size_t i = 0; i < weights.size(); ++i) {
    const at::Tensor& t = loaded[i].second;
    EXPECT_TRUE(t.is_cuda());
    EXPECT_EQ(t.scalar_type(), weights[i].scalar_type());
    EXPECT_TRUE(t.cpu().equal(weights[i].cpu())) << i;
  }
}

// The driver makes code for this GPU of the PTX that an older one's code has.
TEST_F(SavedForAGpu, LaterGpusRunThePtx) {
  Layer layer;
  const std::vector<at::Tensor> weights = {layer.p.tensor(1), layer.p.tensor(1)};
  const auto with_code = [&](int arch, std::string_view cubin, std::string_view ptx) {
    artifact::Artifact a = layer.p.finish();
    for (artifact::Step& s : a.steps)
      if (auto* l = std::get_if<artifact::Launch>(&s))
        l->object = std::make_shared<machine::Object>(
            machine::Object{machine::Form::Cuda, "mix", machine::write_cuda_code(arch, true, cubin, ptx)});
    save(program_of(std::move(a), weights, arch), weights);
  };
  with_code(80, "a cubin of another GPU", gpu::code_of("mix"));
  EXPECT_TRUE(all_are(call(vesta::detail::Program(path_, {}), layer.p.tensor(1)), Layer::of(1, 1, 1)));
  with_code(120, gpu::code_of("mix"), gpu::code_of("mix"));
  EXPECT_NE(why_not().find("it was saved for sm_120 and needs features that this GPU does not have: sm_120"),
            std::string::npos)
      << why_not();
}

TEST_F(SavedForAGpu, WhatThisGpuLacksIsNamed) {
  Layer layer;
  const std::vector<at::Tensor> weights = {layer.p.tensor(1), layer.p.tensor(1)};
  const program::Program p = program_of(layer.p.finish(), weights);

  program::Program other = p;
  for (artifact::Step& s : other.variants[0].artifact.steps)
    if (auto* l = std::get_if<artifact::Launch>(&s)) l->grid.shared = 200 << 10;
  save(other, weights);
  EXPECT_NE(why_not().find("its kernels need 208896 bytes of shared memory per block, but this GPU has 65536"),
            std::string::npos)
      << why_not();

  other = p;
  other.weights[1].device.index = 2;
  other.weights[1].storage = 1;
  save(other, weights);
  EXPECT_NE(why_not().find("p.vesta cannot run here: it was saved for cuda:2, but this process sees 1 GPU;"),
            std::string::npos)
      << why_not();
}

TEST_F(SavedForAGpu, WeightsOfOthers) {
  Layer layer;
  const std::vector<at::Tensor> weights = {layer.p.tensor(1), layer.p.tensor(1)};
  const program::Program p = program_of(layer.p.finish(), weights);
  program::save(p, std::vector<program::Memory>(p.storages.size()), path_);
  EXPECT_NE(why_not().find("2 of them are missing: w0, w1"), std::string::npos) << why_not();

  // A safetensors file is of no device; the caller's tensors are used where they are.
  const std::string file = folder_ / "w.safetensors";
  const std::string header =
      R"({"w0":{"dtype":"F32","shape":[4,4],"data_offsets":[0,64]},"w1":{"dtype":"F32","shape":[4,4],"data_offsets":[64,128]}})";
  const uint64_t size = header.size();
  const std::vector<float> values(32, 2.0F);
  std::ofstream(file, std::ios::binary) << std::string(reinterpret_cast<const char*>(&size), sizeof size) << header
                                        << std::string(reinterpret_cast<const char*>(values.data()),
                                                       values.size() * sizeof(float));
  LoadOptions options;
  options.weights = file;
  EXPECT_TRUE(all_are(call(vesta::detail::Program(path_, options), layer.p.tensor(1)), Layer::of(1, 2, 2)));
  options.tensors = {{"w0", layer.p.tensor(3)}};
  EXPECT_TRUE(all_are(call(vesta::detail::Program(path_, options), layer.p.tensor(1)), Layer::of(1, 3, 2)));
  options.tensors = {{"w0", at::ones({kSide, kSide})}};
  EXPECT_NE(why_not(options).find("the weight w0 is on cuda:0, not on cpu: move the tensor there"), std::string::npos)
      << why_not(options);
}

}  // namespace
