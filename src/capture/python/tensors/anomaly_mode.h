// torch.autograd.set_detect_anomaly: autograd notes where each of its nodes was made, to name the line of a gradient
// that is not a number.
#pragma once

namespace vesta::capture {

bool is_anomaly_mode_on();

}  // namespace vesta::capture
