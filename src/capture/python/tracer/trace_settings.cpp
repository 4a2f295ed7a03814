#include "capture/python/tracer/trace_settings.h"

namespace vesta::capture {

const std::vector<bool>& ShapeHistory::add(const std::vector<int64_t>& now) {
  if (values.size() != now.size()) {
    changed.assign(now.size(), false);
  } else {
    for (size_t d = 0; d < now.size(); ++d)
      if (values[d] != now[d]) changed[d] = true;
  }
  values = now;
  return changed;
}

}  // namespace vesta::capture
