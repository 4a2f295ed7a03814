// Saved programs with changed fields and right digests, loaded and called: see usage. To be built with the address
// sanitizer; the kernels of the seeds are text, so that it sees their accesses.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <torch/serialize.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "base/digest.h"
#include "guarded_memory.h"
#include "mutate.h"
#include "program/file.h"
#include "program/program.h"
#include "vesta/load.h"

extern "C" void __sanitizer_set_death_callback(void (*callback)());
extern "C" const char* __asan_default_options() {
  // Memory that is not there is an error for the program to report, as it is without a sanitizer.
  return "allocator_may_return_null=1:max_allocation_size_mb=256:detect_leaks=0:detect_container_overflow=0:"
         "soft_rss_limit_mb=6000";
}

namespace {

using namespace vesta;
namespace fs = std::filesystem;
using vesta::detail::Value;

constexpr const char* kUsage = R"(usage: mutate_files SEEDS [--count N] [--first N] [--progress] [--verbose]

For each number from --first on (0), as many as --count says (10000): takes one of the programs that write_seeds has
written into the folder SEEDS, changes one to three fields, writes a file with right digests, loads it and calls it.
Each must be an error (a C++ exception) or a run whose results lie in their memory. A crash, a report of the address
sanitizer, a call of more than 20 seconds or a result out of bounds ends the process with the number on stderr;
  mutate_files SEEDS --first NUMBER --count 1 --verbose
repeats it.
  --progress   a line that counts
  --verbose    each number with what was changed and what came of it
)";

struct Seed {
  std::string name;
  std::string bytes;  // of the file
  program::Program program;
  size_t weights_at = 0;
  std::vector<c10::IValue> arguments;
};

uint64_t number_now = 0;
char what_now[2048];

void say_what_fails() {
  const std::string said = fmt::format("\nmutate_files: number {} failed: {}\n", number_now, what_now);
  (void)!write(2, said.data(), said.size());
}

[[noreturn]] void fail(const std::string& why) {
  say_what_fails();
  std::fprintf(stderr, "mutate_files: %s\n", why.c_str());
  std::_Exit(1);
}

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Seed> read_seeds(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& e : fs::directory_iterator(folder))
    if (e.path().extension() == ".vesta") paths.push_back(e.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Seed> out;
  for (const fs::path& path : paths) {
    Seed s;
    s.name = path.stem();
    s.bytes = read_all(path);
    s.program = program::read(s.bytes, &s.weights_at);
    const std::string arguments = read_all(fs::path(path).replace_extension(".pt"));
    s.arguments = torch::pickle_load({arguments.begin(), arguments.end()}).toTupleRef().elements().vec();
    out.push_back(std::move(s));
  }
  return out;
}

// A file with this program, the weights of the seed and the digests of both (program/file.h).
std::string file_of(const program::Program& p, const Seed& seed) {
  const std::string bytes = program::encode(p);
  const std::string weights = seed.bytes.substr(seed.weights_at);
  std::string file = seed.bytes.substr(0, 64);
  const auto put = [&](size_t at, uint64_t x) { std::memcpy(file.data() + at, &x, sizeof x); };
  const uint64_t weights_at = (64 + bytes.size() + 4095) / 4096 * 4096;
  put(16, bytes.size());
  put(24, weights_at);
  put(32, weights_at + weights.size());
  const auto [high, low] = digest_pair({std::string_view(file).substr(0, 40), bytes});
  put(40, high);
  put(48, low);
  file += bytes;
  file.resize(weights_at);
  return file + weights;
}

// A file that is gone when the process is.
class File {
 public:
  File() : fd_(memfd_create("mutated", 0)), path_(fmt::format("/proc/self/fd/{}", fd_)) {}
  void write(const std::string& bytes) const {
    if (ftruncate(fd_, 0) != 0 || pwrite(fd_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
      fail("the file cannot be written");
  }
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

void check_tensor(const at::Tensor& t) {
  if (!t.defined() || t.layout() != c10::kStrided || !t.device().is_cpu() || t.numel() == 0) return;
  __int128 last = t.storage_offset();
  if (last < 0) fail("a result begins before its memory");
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (t.stride(d) < 0) fail("a result has a negative stride");
    last += static_cast<__int128>(t.size(d) - 1) * t.stride(d);
  }
  if ((last + 1) * static_cast<int64_t>(t.itemsize()) > static_cast<__int128>(t.storage().nbytes()))
    fail("a result reaches past its memory");
  const char* at = static_cast<const char*>(t.const_data_ptr());
  volatile char sink = at[(last - t.storage_offset()) * static_cast<int64_t>(t.itemsize())];
  (void)sink;
}

void check_value(const Value& v) {
  if (const auto* t = std::get_if<at::Tensor>(&v.value)) check_tensor(*t);
  const auto all = [](const std::vector<Value>& items) {
    for (const Value& i : items) check_value(i);
  };
  if (const auto* l = std::get_if<Value::List>(&v.value)) all(l->items);
  if (const auto* l = std::get_if<Value::Tuple>(&v.value)) all(l->items);
  if (const auto* d = std::get_if<Value::Dict>(&v.value))
    for (const auto& [key, e] : d->items) check_value(key), check_value(e);
}

// The list of arguments; tensors in memory of their own, whatever a program did to the last ones.
Value arguments_of(const Seed& seed) {
  Value::List out;
  for (const c10::IValue& x : seed.arguments) {
    if (x.isTensor()) {
      const at::Tensor& t = x.toTensor();
      at::Tensor copy = at::empty_strided(t.sizes(), t.strides(), t.options());
      copy.copy_(t);
      out.items.push_back({copy});
    } else {
      out.items.push_back({x.toInt()});
    }
  }
  return {std::move(out)};
}

struct Counts {
  uint64_t refused = 0, failed = 0, ran = 0;
  std::map<std::string, uint64_t> errors;
};

void try_one(const std::vector<Seed>& seeds, const File& file, uint64_t number, bool verbose, Counts& counts) {
  const Seed& seed = seeds[number % seeds.size()];
  files::Random random(number);
  program::Program p = seed.program;
  const std::string changed = seed.name + ": " + files::mutate(p, random);
  number_now = number;
  what_now[changed.copy(what_now, sizeof what_now - 1)] = '\0';
  alarm(20);
  std::string came = "ran";
  bool loaded = false;
  try {
    file.write(file_of(p, seed));
    const vesta::detail::Program program(file.path(), {});
    loaded = true;
    for (const char* how : {"sum", "mean"})
      check_value(program.call({arguments_of(seed)}, {{"how", Value{std::string(how)}}}));
    ++counts.ran;
  } catch (const std::exception& e) {
    came = std::string(loaded ? "error: " : "refused: ") + e.what();
    ++(loaded ? counts.failed : counts.refused);
  }
  alarm(0);
  if (verbose) std::printf("%llu %s -> %s\n", static_cast<unsigned long long>(number), changed.c_str(), came.c_str());
}

void run(const std::vector<Seed>& seeds, uint64_t first, uint64_t count, bool progress, bool verbose) {
  const File file;
  // As they were saved they run.
  for (const Seed& s : seeds) {
    number_now = 0;
    what_now[("unchanged " + s.name).copy(what_now, sizeof what_now - 1)] = '\0';
    file.write(file_of(s.program, s));
    const vesta::detail::Program program(file.path(), {});
    for (const char* how : {"sum", "mean"})
      check_value(program.call({arguments_of(s)}, {{"how", Value{std::string(how)}}}));
  }
  Counts counts;
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < count; ++i) {
    try_one(seeds, file, first + i, verbose, counts);
    if (progress && (i % 500 == 499 || i + 1 == count)) {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      std::fprintf(stderr, "\r[%-40s] %llu of %llu, %.0f s left ", std::string((i + 1) * 40 / count, '#').c_str(),
                   static_cast<unsigned long long>(i + 1), static_cast<unsigned long long>(count),
                   seconds / static_cast<double>(i + 1) * static_cast<double>(count - i - 1));
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%s%llu files from number %llu on in %.0f s: %llu refused, %llu errors of calls, %llu ran in bounds\n",
              progress ? "\n" : "", static_cast<unsigned long long>(count), static_cast<unsigned long long>(first),
              seconds, static_cast<unsigned long long>(counts.refused), static_cast<unsigned long long>(counts.failed),
              static_cast<unsigned long long>(counts.ran));
  // Errors alone, or none, would say that the changes are not what they should be.
  if (count >= 1000 && (counts.ran < count / 50 || counts.refused + counts.failed < count / 10))
    fail("too few of one kind");
}

}  // namespace

int main(int count, char** words) {
  uint64_t first = 0, how_many = 10000;
  bool progress = false, verbose = false;
  std::string folder;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "-h" || word == "--help") return std::fputs(kUsage, stdout), 0;
    if ((word == "--count" || word == "--first") && i + 1 < count)
      (word == "--count" ? how_many : first) = std::strtoull(words[++i], nullptr, 10);
    else if (word == "--progress")
      progress = true;
    else if (word == "--verbose")
      verbose = true;
    else if (word[0] != '-' && folder.empty())
      folder = word;
    else
      return std::fputs(kUsage, stderr), 2;
  }
  if (folder.empty()) return std::fputs(kUsage, stderr), 2;
  __sanitizer_set_death_callback(say_what_fails);
  signal(SIGALRM, [](int) {
    say_what_fails();
    std::_Exit(1);
  });
  at::set_num_threads(1);
  files::guard_tensors();
  const std::vector<Seed> seeds = read_seeds(folder);
  if (seeds.empty()) return std::fprintf(stderr, "mutate_files: no programs in %s\n", folder.c_str()), 2;
  run(seeds, first, how_many, progress, verbose);
  std::fflush(stdout);
  return 0;
}
