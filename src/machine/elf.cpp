#include "machine/elf.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "base/check.h"
#include "base/totals.h"
#include "machine/imports.h"

namespace vesta::machine {

namespace {

// Groups of pages with equal protection. Each group starts on a page of its own.
enum Group : uint8_t { kCode, kConstants, kVariables, kGroups };

size_t round_up(size_t x, size_t to) { return (x + to - 1) / to * to; }
size_t page_size() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// Private pages. They are writable until seal().
class Pages {
 public:
  explicit Pages(const size_t (&sizes)[kGroups]) {
    size_t end = 0;
    for (int g = 0; g < kGroups; ++g) {
      begin_[g] = end;
      end += round_up(sizes[g], page_size());
    }
    begin_[kGroups] = end;
    void* p = mmap(nullptr, end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    VESTA_CHECK(p != MAP_FAILED, "cannot allocate {} bytes for code: {}", end, std::strerror(errno));
    base_ = static_cast<char*>(p);
    held_.set(static_cast<int64_t>(end));
  }
  ~Pages() { munmap(base_, size()); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  char* at(Group g) const { return base_ + begin_[g]; }
  size_t size() const { return begin_[kGroups]; }
  void seal() {
    protect(kCode, PROT_READ | PROT_EXEC);
    protect(kConstants, PROT_READ);
  }

 private:
  void protect(Group g, int how) {
    const size_t bytes = begin_[g + 1] - begin_[g];
    if (bytes == 0) return;
    VESTA_CHECK(mprotect(base_ + begin_[g], bytes, how) == 0,
                "the system refuses to make {} bytes of code executable: {}", bytes, std::strerror(errno));
  }

  char* base_ = nullptr;
  size_t begin_[kGroups + 1] = {};
  totals::KeptBytes held_{totals::Memory::Code};
};

class ElfCode final : public Code {
 public:
  ElfCode(std::unique_ptr<Pages> pages, KernelFn entry) : pages_(std::move(pages)), entry_(entry) {}
  KernelFn entry() const override { return entry_; }
  size_t bytes() const override { return pages_->size(); }

 private:
  std::unique_ptr<Pages> pages_;
  KernelFn entry_;
};

// The bytes of a file. Every read is checked against their end.
class File {
 public:
  explicit File(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  T read(uint64_t offset) const {
    check(offset, sizeof(T));
    T x;
    std::memcpy(&x, bytes_.data() + offset, sizeof(T));
    return x;
  }
  const char* range(uint64_t offset, uint64_t size) const {
    check(offset, size);
    return bytes_.data() + offset;
  }
  std::string_view text(const Elf64_Shdr& strings, uint64_t offset) const {
    check(strings.sh_offset, strings.sh_size);
    VESTA_CHECK(offset < strings.sh_size, "damaged code: a name begins beyond its table");
    const std::string_view all = bytes_.substr(strings.sh_offset + offset, strings.sh_size - offset);
    const size_t end = all.find('\0');
    VESTA_CHECK(end != std::string_view::npos, "damaged code: a name has no end");
    return all.substr(0, end);
  }

 private:
  void check(uint64_t offset, uint64_t size) const {
    VESTA_CHECK(offset <= bytes_.size() && size <= bytes_.size() - offset, "damaged code: {} bytes at {} of {}", size,
                offset, bytes_.size());
  }
  std::string_view bytes_;
};

struct Section {
  Elf64_Shdr header;
  bool placed = false;
  Group group = kCode;
  size_t offset = 0;  // within its group
};

// An imported function: its pointer lies among the constants, and calls reach a jump through that pointer.
struct Import {
  void* address = nullptr;
  size_t pointer = 0;  // offset in kConstants
  size_t jump = 0;     // offset in kCode
};

class Loader {
 public:
  explicit Loader(const Object& object) : object_(object), file_(object.bytes) {}

  std::shared_ptr<const Code> run() {
    read_sections();
    place_sections();
    find_imports();
    pages_ = std::make_unique<Pages>(sizes_);
    for (const Section& s : sections_)
      if (s.placed && s.header.sh_type != SHT_NOBITS)
        std::memcpy(memory_of(s), file_.range(s.header.sh_offset, s.header.sh_size), s.header.sh_size);
    for (const auto& [symbol, import] : imports_) write_import(import);
    for (const Section& s : sections_)
      if (s.header.sh_type == SHT_RELA && target_of(s).placed) relocate(s);
    char* entry = find_entry();
    pages_->seal();
    return std::make_shared<ElfCode>(std::move(pages_), reinterpret_cast<KernelFn>(entry));
  }

 private:
  static constexpr size_t kJumpBytes = 8;

  void read_sections() {
    const auto header = file_.read<Elf64_Ehdr>(0);
    VESTA_CHECK(std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
                    header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_type == ET_REL &&
                    header.e_shentsize == sizeof(Elf64_Shdr),
                "damaged code: not a relocatable ELF file");
#if defined(__x86_64__)
    VESTA_CHECK(header.e_machine == EM_X86_64, "the code is for another machine (ELF number {})", header.e_machine);
#else
    VESTA_CHECK(false, "the code is for x86-64, which this machine is not");
#endif
    for (size_t i = 0; i < header.e_shnum; ++i)
      sections_.push_back({file_.read<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr))});
    for (const Section& s : sections_) {
      if (s.header.sh_type != SHT_SYMTAB) continue;
      VESTA_CHECK(s.header.sh_link < sections_.size(), "damaged code: symbols without names");
      VESTA_CHECK(s.header.sh_size <= object_.bytes.size(), "damaged code: {} bytes of symbols", s.header.sh_size);
      names_ = sections_[s.header.sh_link].header;
      for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= s.header.sh_size; at += sizeof(Elf64_Sym))
        symbols_.push_back(file_.read<Elf64_Sym>(s.header.sh_offset + at));
    }
  }

  void place_sections() {
    for (Section& s : sections_) {
      const Elf64_Shdr& h = s.header;
      // Unwind tables are left out because kernels do not throw.
      if (!(h.sh_flags & SHF_ALLOC) || h.sh_size == 0 || h.sh_type == SHT_X86_64_UNWIND) continue;
      if (h.sh_type != SHT_PROGBITS && h.sh_type != SHT_NOBITS) continue;
      VESTA_CHECK(!(h.sh_flags & SHF_TLS), "the code has thread-local variables");
      const size_t align = std::max<uint64_t>(1, h.sh_addralign);
      VESTA_CHECK((align & (align - 1)) == 0 && align <= page_size(), "damaged code: an alignment of {}", align);
      VESTA_CHECK(h.sh_size <= kMostBytes, "damaged code: a section of {} bytes", h.sh_size);
      s.placed = true;
      s.group = h.sh_flags & SHF_EXECINSTR ? kCode : h.sh_flags & SHF_WRITE ? kVariables : kConstants;
      s.offset = round_up(sizes_[s.group], align);
      sizes_[s.group] = s.offset + h.sh_size;
      VESTA_CHECK(sizes_[s.group] <= kMostBytes, "damaged code: more than {} bytes", kMostBytes);
    }
  }

  void find_imports() {
    for (const Section& s : sections_) {
      if (s.header.sh_type != SHT_RELA || !target_of(s).placed) continue;
      for_each_relocation(s, [&](const Elf64_Rela& r) {
        const Elf64_Sym& symbol = symbol_of(r);
        const bool by_pointer = is_by_pointer(ELF64_R_TYPE(r.r_info));
        if (symbol.st_shndx != SHN_UNDEF && !by_pointer) return;
        const auto [it, fresh] = imports_.try_emplace(ELF64_R_SYM(r.r_info));
        if (!fresh) return;
        if (symbol.st_shndx == SHN_UNDEF) {
          const std::string_view name = file_.text(names_, symbol.st_name);
          it->second.address = import_address(name);
          VESTA_CHECK(it->second.address, "the code calls {}, which this process does not have", name);
        }
        it->second.pointer = sizes_[kConstants] = round_up(sizes_[kConstants], sizeof(void*));
        sizes_[kConstants] += sizeof(void*);
        it->second.jump = sizes_[kCode] = round_up(sizes_[kCode], kJumpBytes);
        sizes_[kCode] += kJumpBytes;
      });
    }
  }

  void write_import(const Import& import) {
    char* pointer = pages_->at(kConstants) + import.pointer;
    write_address(pointer, import.address);
    char* jump = pages_->at(kCode) + import.jump;
    const unsigned char code[2] = {0xff, 0x25};  // jmp *(rip + distance)
    std::memcpy(jump, code, sizeof code);
    write_distance(jump + 2, pointer - (jump + 6));
  }

  static void write_address(char* to, const void* address) {
    const auto number = reinterpret_cast<uintptr_t>(address);
    std::memcpy(to, &number, sizeof number);
  }

  static void write_distance(char* to, int64_t distance) {
    VESTA_CHECK(distance == static_cast<int32_t>(distance), "the code refers to an address farther away than 2 GB");
    const auto narrow = static_cast<int32_t>(distance);
    std::memcpy(to, &narrow, sizeof narrow);
  }

  // Wraps around, as the addresses of the machine do: a damaged object may have any addend.
  static int64_t sum(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }

  static bool is_by_pointer(uint64_t type) {
    return type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
  }

  void relocate(const Section& relocations) {
    const Section& target = target_of(relocations);
    for_each_relocation(relocations, [&](const Elf64_Rela& r) {
      const uint64_t type = ELF64_R_TYPE(r.r_info);
      if (type == R_X86_64_NONE) return;
      const size_t width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
      VESTA_CHECK(r.r_offset <= target.header.sh_size && width <= target.header.sh_size - r.r_offset,
                  "damaged code: a relocation outside of its section");
      char* place = memory_of(target) + r.r_offset;
      const auto import = imports_.find(ELF64_R_SYM(r.r_info));
      const bool is_import = symbol_of(r).st_shndx == SHN_UNDEF;
      switch (type) {
        case R_X86_64_PC32:
        case R_X86_64_PLT32: {
          const char* to = is_import ? pages_->at(kCode) + import->second.jump : address_of(symbol_of(r));
          return write_distance(place, sum(to - place, r.r_addend));
        }
        case R_X86_64_GOTPCREL:
        case R_X86_64_GOTPCRELX:
        case R_X86_64_REX_GOTPCRELX: {
          char* pointer = pages_->at(kConstants) + import->second.pointer;
          if (!is_import) write_address(pointer, address_of(symbol_of(r)));
          return write_distance(place, sum(pointer - place, r.r_addend));
        }
        case R_X86_64_64:
        case R_X86_64_PC64: {
          const char* to = is_import ? static_cast<char*>(import->second.address) : address_of(symbol_of(r));
          const int64_t from = type == R_X86_64_64 ? 0 : reinterpret_cast<int64_t>(place);
          const int64_t value = sum(reinterpret_cast<int64_t>(to) - from, r.r_addend);
          std::memcpy(place, &value, sizeof value);
          return;
        }
        default: VESTA_CHECK(false, "the code has relocations of the unsupported type {}", type);
      }
    });
  }

  template <class F>
  void for_each_relocation(const Section& s, F&& f) const {
    VESTA_CHECK(s.header.sh_size <= object_.bytes.size(), "damaged code: {} bytes of relocations", s.header.sh_size);
    for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= s.header.sh_size; at += sizeof(Elf64_Rela))
      f(file_.read<Elf64_Rela>(s.header.sh_offset + at));
  }

  const Section& target_of(const Section& relocations) const {
    VESTA_CHECK(relocations.header.sh_info < sections_.size(), "damaged code: relocations without a section");
    return sections_[relocations.header.sh_info];
  }

  const Elf64_Sym& symbol_of(const Elf64_Rela& r) const {
    VESTA_CHECK(ELF64_R_SYM(r.r_info) < symbols_.size(), "damaged code: a relocation without a symbol");
    return symbols_[ELF64_R_SYM(r.r_info)];
  }

  char* memory_of(const Section& s) const { return pages_->at(s.group) + s.offset; }

  char* address_of(const Elf64_Sym& symbol) const {
    VESTA_CHECK(symbol.st_shndx < sections_.size() && sections_[symbol.st_shndx].placed,
                "damaged code: a symbol outside of all sections");
    const Section& s = sections_[symbol.st_shndx];
    VESTA_CHECK(symbol.st_value <= s.header.sh_size, "damaged code: a symbol outside of its section");
    return memory_of(s) + symbol.st_value;
  }

  char* find_entry() const {
    for (const Elf64_Sym& symbol : symbols_) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
      if (file_.text(names_, symbol.st_name) != object_.symbol) continue;
      char* entry = address_of(symbol);
      VESTA_CHECK(sections_[symbol.st_shndx].group == kCode, "damaged code: the entry is not in the code section");
      return entry;
    }
    VESTA_CHECK(false, "the code does not define the function {}", object_.symbol);
  }

  static constexpr size_t kMostBytes = size_t{1} << 30;

  const Object& object_;
  const File file_;
  std::vector<Section> sections_;
  std::vector<Elf64_Sym> symbols_;
  Elf64_Shdr names_{};
  std::map<uint64_t, Import> imports_;  // by symbol
  size_t sizes_[kGroups] = {};
  std::unique_ptr<Pages> pages_;
};

}  // namespace

std::shared_ptr<const Code> load_elf(const Object& object) { return Loader(object).run(); }

}  // namespace vesta::machine
