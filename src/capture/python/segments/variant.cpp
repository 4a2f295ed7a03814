#include "capture/python/segments/variant.h"

#include <algorithm>

namespace vesta::capture {

std::vector<std::vector<Object>*> Variant::holders() {
  std::vector<std::vector<Object>*> all{&epilogue.kept, &constants};
  guards.add_holders(all);
  return all;
}

bool Variant::take_compiled() {
  if (!finish_compile(graph)) return false;
  report.pending = false;
  report.compiled = graph.report;
  return true;
}

void Variant::let_go() {
  watched = Watched(holders());
  for (const Reconstruction& r : epilogue.reconstructions)
    if (r.object && watched.contains(r.object) &&
        std::find(epilogue.watched.begin(), epilogue.watched.end(), r.object) == epilogue.watched.end())
      epilogue.watched.push_back(r.object);
}

}  // namespace vesta::capture
