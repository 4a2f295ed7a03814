#include "capture/python/tensors/profiled.h"

#include <ATen/record_function.h>

#include "runtime/profiled_launches.h"

namespace vesta::capture {
namespace {

struct Range {
  at::RecordFunction record{at::RecordScope::USER_SCOPE};
  runtime::ProfiledLaunches launches;
};

}  // namespace

std::shared_ptr<const void> profiled_range(const std::string& name) {
  auto range = std::make_shared<Range>();
  range->record.before(name);
  return range;
}

}  // namespace vesta::capture
