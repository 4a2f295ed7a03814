// Saved programs as bytes and files: what comes back is what went in; what is damaged is an error or in bounds.
#include "program/program.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "base/digest.h"
#include "program/file.h"
#include "program/safetensors.h"
#include "program_sample.h"
#include "vesta/error.h"

namespace vesta::program {
namespace {

namespace fs = std::filesystem;
using vesta::testing::program_sample;

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Memory memory_of(const std::string& bytes) {
  return [&bytes] { return std::shared_ptr<const char>(std::shared_ptr<void>(), bytes.data()); };
}

class ProgramFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("vesta_program_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST(ProgramBytes, WhatComesBackIsWhatWentIn) {
  const Program p = program_sample();
  const std::string bytes = encode(p);
  const Program q = decode(bytes);
  EXPECT_EQ(encode(q), bytes);
  EXPECT_EQ(print(q), print(p));
  EXPECT_EQ(q.variants[0].origin.target, host_target());
  EXPECT_EQ(q.variants[0].origin.packed_weights, 1 << 20);
  EXPECT_FALSE(q.variants[0].origin.cuda_graphs);
  EXPECT_EQ(q.variants[0].origin.copied_inputs, -1);
  EXPECT_EQ(q.variants[0].origin.cuda_graph_memory, 1 << 30);
  EXPECT_TRUE(q.variants[0].origin.deterministic);
  EXPECT_FALSE(q.variants[0].origin.kernels);
  EXPECT_TRUE(same(q.variants[0].makes[1].value, p.variants[0].makes[1].value));
  EXPECT_EQ(artifact::print(q.variants[0].artifact), artifact::print(p.variants[0].artifact));
}

TEST(ProgramBytes, ScalarsAreEqualAsGuardsCompareThem) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(same(Scalar(nan), Scalar(-nan)));
  EXPECT_FALSE(same(Scalar(0.0), Scalar(-0.0)));
  EXPECT_FALSE(same(Scalar(true), Scalar(int64_t{1})));
  EXPECT_FALSE(same(Scalar(std::string("cpu")), Scalar(Name{"cpu"})));
  EXPECT_TRUE(same(Scalar(), Scalar()));
  EXPECT_EQ(to_string(Scalar(2.0)), "2.0");
  EXPECT_EQ(to_string(Scalar(1e300)), "1e+300");
  EXPECT_EQ(to_string(Scalar(std::string("a"))), "'a'");
}

TEST(ProgramBytes, TextIsAsPythonWritesIt) {
  const std::string said = print(program_sample());
  for (const char* part : {"f(x, *, how='sum')", "x[1]: f32[s0, 4]", "where x is a dict", "where len(x) == 2",
                           "the keys of x are None, 7", "where how == 'sum'", "x[1] is not x[7]",
                           "-> ({(1-0j): a tensor, torch.float16: an argument}, a weight)", "self.training == False"})
    EXPECT_NE(said.find(part), std::string::npos) << part << "\n" << said;
}

// Each is a field that a run would follow out of its memory.
TEST(ProgramBytes, NumbersThatPointNowhereAreRefused) {
  const std::vector<std::function<void(Program&)>> damages = {
      [](Program& p) { p.weights[0].storage = 1; },
      [](Program& p) { p.weights[0].offset = 29; },
      [](Program& p) { p.weights[0].offset = -1; },
      [](Program& p) { p.weights[0].strides = {}; },
      [](Program& p) { p.weights[0].sizes = {int64_t{1} << 62}; },
      [](Program& p) { p.weights[0].strides = {int64_t{1} << 46}; },
      [](Program& p) { p.weights[0].dtype = DType::Other; },
      [](Program& p) { p.storages[0].bytes = -1; },
      [](Program& p) { p.weights[0].device = {DeviceType::Meta, -1}; },
      [](Program& p) { p.weights[0].device = p.weights[1].device = {DeviceType::CUDA, -1}; },
      [](Program& p) { p.weights[1].device = {DeviceType::CUDA, 0}; },  // of one storage with the first
      [](Program& p) { p.variants.clear(); },
      [](Program& p) { p.variants[0].places[0].index = 2; },
      [](Program& p) { p.variants[0].places[1].parent = 1; },
      [](Program& p) { p.variants[0].places[1].index = -1; },
      [](Program& p) { p.variants[0].checks[0].place = 4; },
      [](Program& p) { p.variants[0].checks[4].number = -1; },
      [](Program& p) { p.variants[0].inputs.pop_back(); },
      [](Program& p) { p.variants[0].inputs[0].place = -1; },
      [](Program& p) { p.variants[0].inputs[0].place = 9; },
      [](Program& p) { p.variants[0].inputs[1].weight = 2; },
      [](Program& p) { p.variants[0].integers = {0, 1}; },
      [](Program& p) { p.variants[0].integers[0] = 4; },
      [](Program& p) { p.variants[0].makes.clear(); },
      [](Program& p) { p.variants[0].makes[0].index = 3; },
      [](Program& p) { p.variants[0].makes[3].index = -1; },
      [](Program& p) { p.variants[0].makes[4].index = 2; },
      [](Program& p) { p.variants[0].makes[6].parts = {6}; },
      [](Program& p) { p.variants[0].makes[5].parts = {1}; },
      [](Program& p) { p.variants[0].makes[5].parts = {0, 1}; },
  };
  verify(program_sample());
  for (size_t i = 0; i < damages.size(); ++i) {
    Program p = program_sample();
    damages[i](p);
    EXPECT_THROW(verify(p), InternalError) << "damage " << i;
    EXPECT_THROW(decode(encode(p)), InternalError) << "damage " << i;
  }
}

TEST(ProgramBytes, DamagedBytesAreAnErrorOrAnotherProgram) {
  constexpr int kTries = 10000;
  const std::string whole = encode(program_sample());
  std::mt19937_64 random(11);
  int errors = 0;
  for (int i = 0; i < kTries; ++i) {
    std::string bytes = whole;
    for (unsigned k = 0; k <= random() % 4; ++k) {
      const uint32_t values[] = {
          0, 1, ~0u, 1u << 31, static_cast<uint32_t>(random()), static_cast<uint32_t>(random() % 256)};
      const uint32_t v = values[random() % 6];
      const size_t at = random() % bytes.size();
      std::memcpy(bytes.data() + at, &v, std::min<size_t>(1 + random() % 4, bytes.size() - at));
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    try {
      print(decode(bytes));
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, kTries / 4);
}

TEST_F(ProgramFile, WeightsLieAlignedAndMapped) {
  Program p = program_sample();
  p.storages.push_back({3, -1, 0});
  p.storages.push_back({5, -1, 0});
  const std::string first(64, 'a'), last = "12345";
  const Memory memory[] = {memory_of(first), nullptr, memory_of(last)};
  const fs::path path = folder_ / "p.vesta";
  const int64_t bytes = save(p, memory, path);
  EXPECT_EQ(bytes, static_cast<int64_t>(fs::file_size(path)));
  const Opened file = open(path);
  EXPECT_EQ(file.weights_at % 4096, 0U);
  EXPECT_EQ(std::string(file.memory(file.program.storages[0]), 64), first);
  EXPECT_LT(file.program.storages[1].at, 0);
  EXPECT_EQ(std::string(file.memory(file.program.storages[2]), 5), last);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file.memory(file.program.storages[2])) % 64, 0U);
  EXPECT_TRUE(check_weights(file).empty());
  // Equal programs give equal files, and nothing else is left in the folder.
  save(p, memory, folder_ / "q.vesta");
  EXPECT_EQ(read_all(path), read_all(folder_ / "q.vesta"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
  // Writing to mapped weights is this process's affair.
  file.memory(file.program.storages[2])[0] = 'x';
  EXPECT_EQ(check_weights(file), std::vector<int>{2});
  EXPECT_EQ(read_all(path), read_all(folder_ / "q.vesta"));
}

// Weights of a GPU have no memory of the CPU's until they are asked for.
TEST_F(ProgramFile, OneStorageIsInMemoryAtATime) {
  Program p = program_sample();
  p.storages.push_back({100, -1, 0});
  p.storages.push_back({0, -1, 0});
  std::vector<int> asked;
  int held = 0;
  std::vector<Memory> memory;
  for (int i = 0; i < 3; ++i)
    memory.emplace_back([&, i] {
      asked.push_back(i);
      EXPECT_EQ(held++, 0);
      return std::shared_ptr<const char>(new char[100]{}, [&](const char* data) {
        --held;
        delete[] data;
      });
    });
  save(p, memory, folder_ / "p.vesta");
  EXPECT_EQ(asked, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(held, 0);
  EXPECT_TRUE(check_weights(open(folder_ / "p.vesta")).empty());
  // A failed save leaves the old file and no other.
  const std::string before = read_all(folder_ / "p.vesta");
  memory[1] = []() -> std::shared_ptr<const char> { throw std::runtime_error("the GPU is lost"); };
  EXPECT_THROW(save(p, memory, folder_ / "p.vesta"), std::runtime_error);
  EXPECT_EQ(read_all(folder_ / "p.vesta"), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(ProgramFile, WhatCannotBeWrittenIsAnErrorThatNamesThePath) {
  const Memory memory[] = {nullptr};
  try {
    save(program_sample(), memory, folder_ / "none" / "p.vesta");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("none/p.vesta cannot be written: No such file"), std::string::npos)
        << e.what();
  }
}

// Every field of the header and of the program's bytes stands under the digest.
TEST_F(ProgramFile, EveryChangedByteIsFound) {
  const Memory memory[] = {nullptr};
  save(program_sample(), memory, folder_ / "p.vesta");
  const std::string whole = read_all(folder_ / "p.vesta");
  uint64_t program_bytes = 0;
  std::memcpy(&program_bytes, whole.data() + 16, sizeof program_bytes);
  read(whole);
  for (size_t at = 0; at < 64 + program_bytes; ++at) {
    if (at >= 56 && at < 64) continue;  // zeros that nothing reads
    std::string other = whole;
    other[at] = static_cast<char>(other[at] ^ 0x10);
    EXPECT_THROW(read(other), UserError) << at;
  }
  for (size_t size = 0; size < whole.size(); size += 7) EXPECT_THROW(read(whole.substr(0, size)), UserError);
}

// A file with the right digest whose weights lie elsewhere.
TEST_F(ProgramFile, ExtentsAreComparedWithTheFile) {
  Program p = program_sample();
  p.storages[0].at = 64;
  const Memory memory[] = {nullptr};
  save(p, memory, folder_ / "p.vesta");
  EXPECT_THROW(open(folder_ / "p.vesta"), UserError);
}

std::string safetensors(const std::string& header, const std::string& data) {
  const uint64_t n = header.size();
  return std::string(reinterpret_cast<const char*>(&n), sizeof n) + header + data;
}

TEST(Safetensors, HeadersAreReadAndChecked) {
  const auto found = read_safetensors(safetensors(
      R"({"__metadata__":{"a":"b"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"e":{"dtype":"F16","shape":[0,7],"data_offsets":[24,24]},"q":{"dtype":"F4","shape":[2],"data_offsets":[24,25]},"f":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[25,28]}})",
      std::string(28, 'x')));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found.at("f").dtype, DType::F8E4M3FN);
  EXPECT_EQ(found.at("w").sizes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(found.at("w").bytes, 24U);
  EXPECT_EQ(found.at("e").bytes, 0U);
  for (const char* header : {"", "{", "[]", "[1]", R"({"w":1})", R"({"w":{"dtype":"F32"}})",
                             R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
                             R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[24,32]}})",
                             R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
                             R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
                             R"({"w":{"dtype":"F32","shape":"2","data_offsets":[0,8]}})"})
    EXPECT_THROW(read_safetensors(safetensors(header, std::string(25, 'x'))), UserError) << header;
  EXPECT_THROW(read_safetensors("short"), UserError);
  EXPECT_THROW(read_safetensors(std::string(16, '\xff')), UserError);
}

}  // namespace
}  // namespace vesta::program
