// What the parts of a variant are saved from and into: shared by the classes that save one part each.
#pragma once

#include <string>

#include "capture/python/saving/places.h"
#include "capture/python/saving/saver.h"
#include "capture/python/saving/weights.h"
#include "capture/python/segments/variant.h"

namespace vesta::capture {

struct VariantParts {
  const Variant& variant;
  const Registers& found;  // of a check of its guards, without those on arguments
  const Calling& calling;
  WeightTable& weights;
  program::Variant& out;
  Places& places;

  const std::string& text(int source) const { return source_text(variant.guards, source); }
  // "self.first.weight" for "self._modules['first']._parameters['weight']".
  std::string plain_text(int source) const;
  // The object of a source. Throws UserError if it is gone.
  PyObject* object(int source) const;
  // The number of the weight for a tensor of the program.
  int weight(int source) { return weights.add(object(source), plain_text(source)); }
};

}  // namespace vesta::capture
