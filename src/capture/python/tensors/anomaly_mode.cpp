#include "capture/python/tensors/anomaly_mode.h"

#include <torch/csrc/autograd/anomaly_mode.h>

namespace vesta::capture {

bool is_anomaly_mode_on() { return torch::autograd::AnomalyMode::is_enabled(); }

}  // namespace vesta::capture
