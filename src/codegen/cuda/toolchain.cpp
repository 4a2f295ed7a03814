#include "codegen/cuda/toolchain.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include "base/check.h"
#include "base/digest.h"
#include "codegen/cuda/jit_link.h"
#include "codegen/cuda/nvrtc.h"
#include "store/store.h"
#include "vesta_cuda_digest.h"

namespace vesta::codegen {
namespace {

// Identifies a library's file without loading it: its build ID, or its path, size and time of change.
std::string identity_of(const std::string& file) {
  if (std::string id = machine::build_id(file); !id.empty()) return id;
  std::error_code error;
  const auto bytes = std::filesystem::file_size(file, error);
  const auto time = std::filesystem::last_write_time(file, error);
  return fmt::format("{} {} {}", file, bytes, time.time_since_epoch().count());
}

// Identifies the libraries that would be loaded; empty: none is found without the linker.
std::string identity() {
  const std::vector<std::string> nvrtc = machine::library_files(Nvrtc::search());
  if (nvrtc.empty()) return {};
  std::set<std::string> linkers;  // a set, because a loaded library is found twice
  for (const std::string& file : machine::library_files(JitLink::search())) linkers.insert(identity_of(file));
  return fmt::format("{}; {}", identity_of(nvrtc.front()), fmt::join(linkers, "; "));
}

// The key of a note in the store: the digest of its subject.
std::string key_of(const std::string& about) { return "nvrtc_" + digest({about, VESTA_CUDA_DIGEST}); }
const std::string& last_key() {
  static const auto* key = new std::string(key_of("the last one"));
  return *key;
}

std::string note_of(const Toolchain& t) { return fmt::format("{}\n{}\n", t.name, fmt::join(t.architectures, " ")); }

std::optional<Toolchain> find_note(const std::string& key) {
  store::Store* const store = store::shared();
  const std::optional<std::string> text = store ? store->find(key) : std::nullopt;
  if (!text) return std::nullopt;
  std::istringstream in(*text);
  Toolchain t;
  std::getline(in, t.name);
  for (int arch = 0; in >> arch;) t.architectures.push_back(arch);
  return t.name.empty() ? std::nullopt : std::optional(t);
}

void write_note(const std::string& key, const Toolchain& t) {
  store::Store* const store = store::shared();
  if (store && store->find(key) != note_of(t)) store->put(key, note_of(t));
}

// nullopt: the libraries cannot be loaded.
std::optional<Toolchain> load(std::string* why) {
  const Nvrtc* const nvrtc = Nvrtc::get(why);
  if (!nvrtc) return std::nullopt;
  const JitLink* const linker = JitLink::get(nvrtc->major());
  Toolchain t;
  t.name = fmt::format("nvrtc {} build {}", nvrtc->version(), machine::build_id(nvrtc->file()));
  if (linker) t.name += fmt::format(", linker build {}", machine::build_id(linker->file()));
  t.architectures = nvrtc->architectures();
  std::sort(t.architectures.begin(), t.architectures.end());
  return t;
}

struct Known {
  std::optional<Toolchain> toolchain;
  std::string why;
};

const Known& known() {
  static const auto* found = [] {
    auto* k = new Known;
    const std::string id = identity();
    if (!id.empty()) k->toolchain = find_note(key_of(id));
    if (k->toolchain) return k;
    if ((k->toolchain = load(&k->why))) {
      if (!id.empty()) write_note(key_of(id), *k->toolchain);
    } else {
      k->toolchain = find_note(last_key());
    }
    return k;
  }();
  return *found;
}

}  // namespace

const Toolchain* toolchain(std::string* why) {
  const Known& k = known();
  if (!k.toolchain && why) *why = k.why;
  return k.toolchain ? &*k.toolchain : nullptr;
}

std::string_view cuda_sources() { return VESTA_CUDA_DIGEST; }

void load_toolchain() {
  std::string why;
  const std::optional<Toolchain> now = load(&why);
  const Toolchain* const said = toolchain();
  if (!now) VESTA_UNSUPPORTED("code for a GPU is not in the cache and cannot be made: {}", why);
  if (!said || now->name != said->name)
    VESTA_UNSUPPORTED("code for a GPU needs {}, but {} was loaded", said ? said->name : "nothing", now->name);
  write_note(last_key(), *now);
}

}  // namespace vesta::codegen
