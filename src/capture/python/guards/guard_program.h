// The guards of one trace as a flat program, checked at every call: each step reads a source or checks a guard. A check
// runs no Python code of the program and leaves no error set. Where the guard cache shows that nothing changed since a
// check that held, most steps are left out. The program knows nothing of graphs and epilogues.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "capture/python/guards/guard.h"
#include "capture/python/guards/registers.h"
#include "capture/python/sources/read_source.h"

namespace vesta::capture {

class GuardCache;

// What a source is for the check that no written object is another source's object.
enum class SourceRole : uint8_t { Neither, Object, Written };

class GuardProgram {
 public:
  // `needed`: sources whose objects the caller reads from the registers when the check has passed.
  // `written`: sources of objects that the segment writes; none of `objects` may be one of them under another source.
  GuardProgram(SourceTable sources, std::vector<Guard> guards, std::vector<ClassLookup> lookups,
               std::vector<int> needed, std::vector<int> written, std::vector<int> objects);

  // The registers of one check; a program keeps them for its next check. Checks may nest, and several threads may check
  // one program: a garbage collection in the middle of a check may run Python code.
  class Lease {
   public:
    explicit Lease(const GuardProgram& program)
        : program_(program), registers_(program.spare_ ? std::move(program.spare_) : std::make_unique<Registers>()) {}
    ~Lease() { program_.spare_ = std::move(registers_); }
    Lease& operator=(Lease&&) = delete;  // neither copied nor moved
    Registers& operator*() const { return *registers_; }

   private:
    const GuardProgram& program_;
    std::unique_ptr<Registers> registers_;
  };
  // kHolds if all guards hold; else the index of one that does not, or kAliased. The registers of sources that are not
  // `needed` may be empty.
  static constexpr int kHolds = -1, kAliased = -2;
  int check(Frame* f, Registers& registers) const;
  // The source gives the object that it gave, in checks that hold and leave the same Registers::of_cache, unless that
  // is 0.
  bool is_steady(int source) const;
  // As check(), without these sources and the guards that read them, and without the cache: only what the roots lead
  // to. Fills the registers of all other sources.
  int check_without(const std::vector<bool>& sources, const Roots& roots, Registers& registers) const;

  const std::vector<Guard>& guards() const { return guards_; }
  const SourceTable& sources() const { return sources_; }
  // The expected keys of a guard Check::Keys, in order.
  const std::vector<PyObject*>& keys(const Guard& g) const { return keys_[static_cast<size_t>(g.number)]; }
  PyCodeObject* code = nullptr;  // of the frame, for the names of its variables in texts
  // Appends every list in which the program holds references.
  void add_holders(std::vector<std::vector<Object>*>& holders);

 private:
  struct Step {
    int source;  // to read, or -1
    int guard;   // to check, or -1
  };
  template <class LeftOut>
  int check_steps(const LeftOut& is_left_out, const Roots& roots, Registers& registers) const;
  // Checks what changed since the last check that held. False: that does not suffice, or a guard fails.
  bool check_changes(Frame* f, const Roots& roots, Registers& registers) const;
  bool holds(const Guard& g, const Registers& registers) const;

  SourceTable sources_;
  std::vector<Object> kept_;
  std::vector<std::vector<PyObject*>> keys_;  // of Check::Keys
  std::vector<Guard> guards_;
  std::vector<ClassLookup> lookups_;
  std::vector<Step> steps_;
  std::vector<int> objects_;
  std::vector<SourceRole> roles_;
  std::shared_ptr<GuardCache> cache_;
  mutable std::unique_ptr<Registers> spare_;
  mutable std::vector<unsigned> versions_;  // per guard: of Check::Class, the last version for which it held
};

// A source as messages name it.
inline const std::string& source_text(const GuardProgram& program, int source) {
  return program.sources().text(source, reinterpret_cast<PyObject*>(program.code));
}

}  // namespace vesta::capture
