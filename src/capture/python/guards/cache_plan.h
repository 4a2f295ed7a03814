// What a guard cache may skip in a guard program: for each source, how far an unchanged memory word shows that it gives
// the object that it gave. Made once for each program, from sources and guards alone: no object is looked at.
#pragma once

#include <cstdint>
#include <vector>

#include "capture/python/guards/guard.h"
#include "capture/python/sources/source.h"

namespace vesta::capture {

struct CachePlan {
  // What is known of a source as long as the words that lead to it are unchanged.
  enum Stay : uint8_t {
    Changes,    // nothing
    SamePlace,  // its object has the address that it had: perhaps another object, if the first one died
    SameObject  // its object is the one that it was: a dict without a write since then still holds it
  };
  // `written`: sources of objects that the segment writes. `loaded`: by source, whether the program reads it.
  // `unsteady`: by source, a dict that others write between calls; empty: there is none.
  CachePlan(const std::vector<Source>& sources, const std::vector<Guard>& guards, std::vector<int> written,
            std::vector<bool> loaded, std::vector<bool> unsteady = {});
  bool is_unsteady(int source) const {
    return !unsteady.empty() && source >= 0 && unsteady[static_cast<size_t>(source)];
  }

  std::vector<int> written;
  std::vector<bool> loaded, unsteady;
  std::vector<Stay> stays;         // by source
  std::vector<char> typed;         // by source: the class of its object is among the facts
  std::vector<int> first_sources;  // read before the facts are compared: an object in *args or **kwargs
  std::vector<int> changing_sources, changing_guards;  // read and checked at every call, in order
  bool useful = false;                                 // the facts replace enough guards
};

}  // namespace vesta::capture
