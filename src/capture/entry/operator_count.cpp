#include "capture/entry/operator_count.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include <memory>

namespace vesta::capture {
namespace {

// A product has two gradients, each a transposition and a product. Most other derivatives call one or two operators.
constexpr int64_t kOperatorsPerDerivative = 4;

thread_local int64_t count = 0;

std::unique_ptr<at::ObserverContext> count_one(const at::RecordFunction&) {
  ++count;
  return nullptr;
}

}  // namespace

OperatorCount::OperatorCount()
    : callback_(at::addThreadLocalCallback(at::RecordFunctionCallback(&count_one).scopes({at::RecordScope::FUNCTION}))),
      before_(count),
      nodes_before_(at::sequence_number::peek()) {}

OperatorCount::~OperatorCount() { at::removeCallback(callback_); }

int64_t OperatorCount::now() const { return count - before_; }

int64_t OperatorCount::with_derivatives() const {
  return now() + kOperatorsPerDerivative * static_cast<int64_t>(at::sequence_number::peek() - nodes_before_);
}

}  // namespace vesta::capture
