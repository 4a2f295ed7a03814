// Processes that share a store, on a machine without a GPU: the first makes code for one, those after it find all of it
// and load no compiler. CTest runs the tests in their order, each in a process of its own.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "codegen/codegen.h"
#include "codegen/cuda/toolchain.h"
#include "cuda_plans.h"
#include "pipeline/pipeline.h"
#include "store/store.h"
#include "vesta/error.h"

namespace vesta {
namespace {

using codegen::Origin;
using codegen::Request;
using testing::on_device;
using testing::softmax_text;

std::string loaded_files() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

bool is_loaded(std::string_view library) { return loaded_files().find(library) != std::string::npos; }

// A CUDA build of torch has compilers among the libraries that it is linked with.
const std::string files_at_start = loaded_files();
bool torch_loads(std::string_view library) { return files_at_start.find(library) != std::string::npos; }

const Target& gpu() {
  static const Target t = machine::cuda_target_of(90);
  return t;
}

Request kernel_of(int64_t columns) {
  schedule::Options options;
  options.target = gpu();
  const schedule::Plan plan = schedule::make_plan(*on_device("cuda:0", softmax_text(64, columns)), options);
  return {std::get<schedule::KernelStep>(plan.steps.at(0)).text, "softmax"};
}

codegen::Result compile_one(int64_t columns) {
  codegen::CompileOptions options;
  options.store = store::shared();
  return codegen::compile({kernel_of(columns)}, gpu(), options).at(0);
}

// All stages. Without a GPU the last one throws, when everything else is done.
void compile_program(int64_t columns) {
  try {
    pipeline::compile(on_device("cuda:0", softmax_text(32, columns)), {}, {}, &gpu());
    FAIL() << "there is a GPU";
  } catch (const Unsupported& e) {
    EXPECT_NE(std::string(e.what()).find("libcuda.so.1"), std::string::npos) << e.what();
  }
}

void flush() {
  ASSERT_NE(store::shared(), nullptr);
  EXPECT_TRUE(store::shared()->flush(std::chrono::seconds(10)));
}

TEST(CudaProcess, Cold) {
  EXPECT_EQ(compile_one(96).origin, Origin::Compiled);
  compile_program(96);
  EXPECT_TRUE(is_loaded("libnvrtc"));
  EXPECT_TRUE(is_loaded("libnvJitLink"));
  flush();
}

TEST(CudaProcess, Warm) {
  EXPECT_TRUE(codegen::available(gpu()));
  EXPECT_FALSE(codegen::available(machine::cuda_target_of(30)));
  EXPECT_EQ(compile_one(96).origin, Origin::Store);
  compile_program(96);
  EXPECT_EQ(is_loaded("libnvrtc"), torch_loads("libnvrtc"));
  EXPECT_EQ(is_loaded("libnvJitLink"), torch_loads("libnvJitLink"));
  // The process loads the libraries that the note describes.
  const std::string said = codegen::fingerprint(gpu());
  EXPECT_EQ(compile_one(97).origin, Origin::Compiled);
  EXPECT_TRUE(is_loaded("libnvrtc"));
  EXPECT_EQ(said, codegen::fingerprint(gpu()));
  flush();
}

TEST(CudaProcess, WithoutCompiler) {
  EXPECT_TRUE(codegen::available(gpu()));
  EXPECT_EQ(compile_one(96).origin, Origin::Store);
  EXPECT_EQ(compile_one(97).origin, Origin::Store);
  compile_program(96);
  for (int turn = 0; turn < 2; ++turn) {
    try {
      compile_one(98);
      FAIL() << "there is a compiler";
    } catch (const Unsupported& e) {
      EXPECT_STREQ(e.what(), "code for a GPU is not in the cache and cannot be made: VESTA_NVRTC is \"\"");
    }
  }
  EXPECT_THROW(pipeline::compile(on_device("cuda:0", softmax_text(32, 98)), {}, {}, &gpu()), Unsupported);
  EXPECT_EQ(is_loaded("libnvrtc"), torch_loads("libnvrtc"));
  EXPECT_EQ(is_loaded("libnvJitLink"), torch_loads("libnvJitLink"));
}

// Nobody takes code of another version, with it or without it.
TEST(CudaProcess, AnotherVersion) {
  EXPECT_NE(codegen::toolchain()->name.find("nvrtc 12.0 "), std::string::npos) << codegen::toolchain()->name;
  const auto now = compile_one(96);
  EXPECT_EQ(now.origin, Origin::Compiled);
  EXPECT_NE(now.object->bytes.find("a cubin of the tests"), std::string::npos);
  flush();
}

TEST(CudaProcess, WithoutCompilerTheLastOnesCode) {
  EXPECT_NE(compile_one(96).object->bytes.find("a cubin of the tests"), std::string::npos);
  EXPECT_THROW(compile_one(97), Unsupported);
}

TEST(CudaProcess, NothingAtAll) {
  std::string why;
  EXPECT_FALSE(codegen::available(gpu(), &why));
  EXPECT_EQ(why, "VESTA_NVRTC is \"\"");
  EXPECT_EQ(codegen::fingerprint(gpu()), "none");
}

}  // namespace
}  // namespace vesta
