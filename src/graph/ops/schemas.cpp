#include "graph/ops/rows.h"

namespace vesta::graph {
namespace {
constexpr const char* kSchemas[] = {
#include "graph/ops/schemas.inc"
};
}  // namespace

std::span<const char* const> row_schemas() { return kSchemas; }

}  // namespace vesta::graph
