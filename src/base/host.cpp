// This machine as a Target. Bits of cpuid: Intel SDM volume 2A, CPUID; AMD APM volume 3, appendix E. Families and
// models: Intel SDM volume 4, table 2-1; AMD's revision guides.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "base/target.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace vesta {
namespace {

#if defined(__x86_64__)

enum Register : uint8_t { Eax, Ebx, Ecx, Edx };
// The register state that the operating system must save between threads before a feature may be used.
enum class State : uint8_t { None, Avx, Avx512, Amx };

struct Feature {
  const char* name;  // as LLVM spells it
  uint32_t leaf, subleaf;
  Register where;
  uint8_t bit;
  State state = State::None;
};

// The features that instructions of generated code may need.
constexpr Feature kFeatures[] = {
    {"adx", 7, 0, Ebx, 19},
    {"aes", 1, 0, Ecx, 25},
    {"amx-bf16", 7, 0, Edx, 22, State::Amx},
    {"amx-fp16", 7, 1, Eax, 21, State::Amx},
    {"amx-int8", 7, 0, Edx, 25, State::Amx},
    {"amx-tile", 7, 0, Edx, 24, State::Amx},
    {"avx", 1, 0, Ecx, 28, State::Avx},
    {"avx2", 7, 0, Ebx, 5, State::Avx},
    {"avx512bf16", 7, 1, Eax, 5, State::Avx512},
    {"avx512bitalg", 7, 0, Ecx, 12, State::Avx512},
    {"avx512bw", 7, 0, Ebx, 30, State::Avx512},
    {"avx512cd", 7, 0, Ebx, 28, State::Avx512},
    {"avx512dq", 7, 0, Ebx, 17, State::Avx512},
    {"avx512f", 7, 0, Ebx, 16, State::Avx512},
    {"avx512fp16", 7, 0, Edx, 23, State::Avx512},
    {"avx512ifma", 7, 0, Ebx, 21, State::Avx512},
    {"avx512vbmi", 7, 0, Ecx, 1, State::Avx512},
    {"avx512vbmi2", 7, 0, Ecx, 6, State::Avx512},
    {"avx512vl", 7, 0, Ebx, 31, State::Avx512},
    {"avx512vnni", 7, 0, Ecx, 11, State::Avx512},
    {"avx512vp2intersect", 7, 0, Edx, 8, State::Avx512},
    {"avx512vpopcntdq", 7, 0, Ecx, 14, State::Avx512},
    {"avxifma", 7, 1, Eax, 23, State::Avx},
    {"avxneconvert", 7, 1, Edx, 5, State::Avx},
    {"avxvnni", 7, 1, Eax, 4, State::Avx},
    {"avxvnniint8", 7, 1, Edx, 4, State::Avx},
    {"avxvnniint16", 7, 1, Edx, 10, State::Avx},
    {"bmi", 7, 0, Ebx, 3},
    {"bmi2", 7, 0, Ebx, 8},
    {"cx16", 1, 0, Ecx, 13},
    {"f16c", 1, 0, Ecx, 29, State::Avx},
    {"fma", 1, 0, Ecx, 12, State::Avx},
    {"fma4", 0x80000001, 0, Ecx, 16, State::Avx},
    {"gfni", 7, 0, Ecx, 8},
    {"lzcnt", 0x80000001, 0, Ecx, 5},
    {"movbe", 1, 0, Ecx, 22},
    {"pclmul", 1, 0, Ecx, 1},
    {"popcnt", 1, 0, Ecx, 23},
    {"prfchw", 0x80000001, 0, Ecx, 8},
    {"sahf", 0x80000001, 0, Ecx, 0},
    {"sha", 7, 0, Ebx, 29},
    {"sha512", 7, 1, Eax, 0, State::Avx},
    {"sse3", 1, 0, Ecx, 0},
    {"sse4.1", 1, 0, Ecx, 19},
    {"sse4.2", 1, 0, Ecx, 20},
    {"sse4a", 0x80000001, 0, Ecx, 6},
    {"ssse3", 1, 0, Ecx, 9},
    {"tbm", 0x80000001, 0, Ecx, 21},
    {"vaes", 7, 0, Ecx, 9, State::Avx},
    {"vpclmulqdq", 7, 0, Ecx, 10, State::Avx},
    {"xop", 0x80000001, 0, Ecx, 11, State::Avx},
};

struct Leaf {
  uint32_t registers[4] = {};
  Leaf(uint32_t leaf, uint32_t subleaf) {
    // A CPU may answer for a subleaf that it does not have with the data of another.
    uint32_t most = 0, unused[3];
    if (subleaf > 0 && (!__get_cpuid_count(leaf, 0, &most, &unused[0], &unused[1], &unused[2]) || most < subleaf))
      return;
    __get_cpuid_count(leaf, subleaf, &registers[0], &registers[1], &registers[2], &registers[3]);
  }
  bool bit(Register r, int b) const { return registers[r] >> b & 1; }
};

// Linux saves the registers for matrices only for a process that has asked for them, once for all of its threads. It
// refuses where a thread has an alternate stack for signals that is too small for them
// (Documentation/arch/x86/xstate.rst).
bool gets_matrices() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool is_saved(State s) {
  if (s == State::None) return true;
  constexpr int kOsUsesXsave = 27;
  if (!Leaf(1, 0).bit(Ecx, kOsUsesXsave)) return false;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  const uint32_t wanted = s == State::Avx ? 0x6 : s == State::Avx512 ? 0xe6 : 0x60000;
  return (low & wanted) == wanted && (s != State::Amx || gets_matrices());
}

constexpr std::string_view kIntel = "GenuineIntel", kAmd = "AuthenticAMD";

std::string vendor() {
  const Leaf leaf(0, 0);
  std::string name;
  for (const Register r : {Ebx, Edx, Ecx})
    name.append(reinterpret_cast<const char*>(&leaf.registers[r]), sizeof(uint32_t));
  return name;
}

// Data caches by level. Intel's leaf 4 and AMD's 0x8000001d have the same fields. If neither is there, the target keeps
// its defaults.
void read_caches(Target& t) {
  const uint32_t leaf = vendor() == kAmd ? 0x8000001d : 4;
  constexpr uint32_t kMostCaches = 8, kData = 1, kUnified = 3;
  for (uint32_t i = 0; i < kMostCaches; ++i) {
    const Leaf c(leaf, i);
    const uint32_t type = c.registers[Eax] & 0x1f, level = c.registers[Eax] >> 5 & 7, size = c.registers[Ebx];
    if (type == 0) break;
    if (type != kData && type != kUnified) continue;
    const int64_t ways = (size >> 22) + 1, partitions = (size >> 12 & 0x3ff) + 1, line = (size & 0xfff) + 1;
    const int64_t bytes = ways * partitions * line * (int64_t{c.registers[Ecx]} + 1);
    if (level == 1) t.l1_bytes = bytes;
    if (level == 2) t.l2_bytes = bytes;
    if (level == 3) t.l3_bytes = bytes;
  }
}

struct Models {
  std::string_view vendor;
  uint32_t family;
  uint32_t first, last;
  const char* name;  // as LLVM spells it
};

constexpr Models kModels[] = {
    {kIntel, 6, 0x3c, 0x3c, "haswell"},        {kIntel, 6, 0x3d, 0x3d, "broadwell"},
    {kIntel, 6, 0x3f, 0x3f, "haswell"},        {kIntel, 6, 0x45, 0x46, "haswell"},
    {kIntel, 6, 0x47, 0x47, "broadwell"},      {kIntel, 6, 0x4e, 0x4e, "skylake"},
    {kIntel, 6, 0x4f, 0x4f, "broadwell"},      {kIntel, 6, 0x55, 0x55, "skylake-avx512"},
    {kIntel, 6, 0x56, 0x56, "broadwell"},      {kIntel, 6, 0x5e, 0x5e, "skylake"},
    {kIntel, 6, 0x6a, 0x6a, "icelake-server"}, {kIntel, 6, 0x6c, 0x6c, "icelake-server"},
    {kIntel, 6, 0x7d, 0x7e, "icelake-client"}, {kIntel, 6, 0x8c, 0x8d, "tigerlake"},
    {kIntel, 6, 0x8e, 0x8e, "skylake"},        {kIntel, 6, 0x8f, 0x8f, "sapphirerapids"},
    {kIntel, 6, 0x97, 0x97, "alderlake"},      {kIntel, 6, 0x9a, 0x9a, "alderlake"},
    {kIntel, 6, 0x9e, 0x9e, "skylake"},        {kIntel, 6, 0xa5, 0xa6, "skylake"},
    {kIntel, 6, 0xa7, 0xa7, "rocketlake"},     {kIntel, 6, 0xaa, 0xaa, "meteorlake"},
    {kIntel, 6, 0xac, 0xac, "meteorlake"},     {kIntel, 6, 0xad, 0xad, "graniterapids"},
    {kIntel, 6, 0xb7, 0xb7, "raptorlake"},     {kIntel, 6, 0xba, 0xba, "raptorlake"},
    {kIntel, 6, 0xbf, 0xbf, "raptorlake"},     {kIntel, 6, 0xcf, 0xcf, "emeraldrapids"},
    {kAmd, 0x17, 0x00, 0x2f, "znver1"},        {kAmd, 0x17, 0x30, 0xaf, "znver2"},
    {kAmd, 0x19, 0x00, 0x0f, "znver3"},        {kAmd, 0x19, 0x10, 0x1f, "znver4"},
    {kAmd, 0x19, 0x20, 0x5f, "znver3"},        {kAmd, 0x19, 0x60, 0xaf, "znver4"},
};

// Empty if the model is not in the table.
std::string model_name() {
  const Leaf signature(1, 0);
  const std::string by = vendor();
  const uint32_t eax = signature.registers[Eax];
  uint32_t family = eax >> 8 & 0xf, model = eax >> 4 & 0xf;
  if (family == 6 || family == 0xf) model |= (eax >> 16 & 0xf) << 4;
  if (family == 0xf) family += eax >> 20 & 0xff;
  for (const Models& m : kModels)
    if (m.vendor == by && m.family == family && m.first <= model && model <= m.last) return m.name;
  return {};
}

// The levels of the x86-64 psABI above the first. Each includes those below it.
struct Level {
  const char* name;  // as LLVM spells it
  std::span<const std::string_view> features;
};
constexpr std::string_view kLevel2[] = {"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"};
constexpr std::string_view kLevel3[] = {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"};
constexpr std::string_view kLevel4[] = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};
constexpr Level kLevels[] = {{"x86-64-v2", kLevel2}, {"x86-64-v3", kLevel3}, {"x86-64-v4", kLevel4}};

class Features {
 public:
  Features() {
    for (const Feature& f : kFeatures)
      if (Leaf(f.leaf, f.subleaf).bit(f.where, f.bit) && is_saved(f.state)) have_.emplace_back(f.name);
  }
  bool has(std::string_view name) const { return std::ranges::find(have_, name) != have_.end(); }
  bool all(std::span<const std::string_view> names) const {
    return std::ranges::all_of(names, [&](std::string_view n) { return has(n); });
  }
  // Keeps the features of the levels up to `last` and removes those above.
  void keep_levels(size_t last) {
    std::erase_if(have_, [&](const std::string& n) {
      return std::none_of(std::begin(kLevels), std::begin(kLevels) + last,
                          [&](const Level& l) { return std::ranges::find(l.features, n) != l.features.end(); });
    });
  }
  // Every feature of the table with its sign, because a hypervisor may hide features that the CPU's name implies.
  std::string text() const {
    std::vector<std::string> all;
    for (const Feature& f : kFeatures) all.push_back(fmt::format("{}{}", has(f.name) ? '+' : '-', f.name));
    std::ranges::sort(all);
    return fmt::format("{}", fmt::join(all, ","));
  }

 private:
  std::vector<std::string> have_;
};

// The highest level for which all features are there, its own and those of the levels below.
std::string level_name(const Features& f) {
  std::string name = "x86-64";
  for (const Level& l : kLevels) {
    if (!f.all(l.features)) break;
    name = l.name;
  }
  return name;
}

Target detect() {
  Target t;
  Features f;
  t.triple = "x86_64-unknown-linux-gnu";
  t.cpu = model_name();
  const char* wanted = std::getenv("ATEN_CPU_CAPABILITY");
  const std::string_view capability = wanted ? wanted : "";
  if (capability == "avx2" && f.has("avx2") && f.has("fma") && f.has("f16c")) {
    t.cpu = "x86-64-v3";
    f.keep_levels(2);
  } else if (capability == "default" && f.has("sse4.2")) {
    t.cpu = "x86-64-v2";
    f.keep_levels(1);
  }
  if (t.cpu.empty()) t.cpu = level_name(f);
  t.features = f.text();
  t.avx512 = f.has("avx512f") && f.has("avx512bw") && f.has("avx512vl") && f.has("avx512dq");
  t.half_convert = f.has("f16c") || f.has("avx512f");
  t.fma = f.has("fma") || f.has("avx512f");
  t.streaming_stores = true;
  read_caches(t);
  t.vector_bytes = t.avx512 ? 64 : f.has("avx2") ? 32 : 16;
  return t;
}

#else

Target detect() {
  Target t;
  t.triple = "unknown";
  t.cpu = "generic";
  return t;
}

#endif

}  // namespace

const Target& host_target() {
  static const Target* host = [] {
    auto* t = new Target(detect());
    t->threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    return t;
  }();
  return *host;
}

}  // namespace vesta
