// Guards on arguments as checks of a saved program. Guards on objects of the program itself are not saved: a loaded
// program has no such objects.
#pragma once

#include "capture/python/saving/variant_parts.h"

namespace vesta::capture {

class ArgumentChecks {
 public:
  explicit ArgumentChecks(VariantParts& parts) : parts_(parts) {}
  // The guard depends on an argument.
  bool concern(const Guard& g) const;
  // Throws UserError if no check of a saved program says the same.
  void add(const Guard& g);
  // For the parameters that the call did not give: forward() took their defaults when it was traced.
  void add_not_given();

 private:
  void check(program::Check::What what, int place, program::Kind kind = program::Kind::None, program::Scalar value = {},
             int64_t number = 0);
  void add_passed_on(const Guard& g);

  VariantParts& parts_;
};

}  // namespace vesta::capture
