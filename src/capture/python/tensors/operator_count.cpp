#include "capture/python/tensors/operator_count.h"

#include <ATen/Context.h>
#include <ATen/record_function.h>

#include <memory>

namespace vesta::capture {
namespace {

thread_local int64_t count = 0;

std::unique_ptr<at::ObserverContext> count_one(const at::RecordFunction&) {
  ++count;
  return nullptr;
}

}  // namespace

OperatorCount::OperatorCount()
    : callback_(at::addThreadLocalCallback(at::RecordFunctionCallback(&count_one).scopes({at::RecordScope::FUNCTION}))),
      before_(count) {}

OperatorCount::~OperatorCount() { at::removeCallback(callback_); }

int64_t OperatorCount::now() const { return count - before_; }

bool has_gpu() { return at::hasCUDA(); }

}  // namespace vesta::capture
