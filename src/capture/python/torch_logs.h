// PyTorch's logs of a compile, which torch._logging.set_logs or TORCH_LOGS turns on. Handlers are Python code, so they
// are written to outside of a trace only. The GIL is held; nothing here raises.
#pragma once

#include <string>

namespace vesta::capture {

enum class TorchLog { GraphBreaks, Recompiles, GraphCode };

bool is_on(TorchLog log);
void write(TorchLog log, const std::string& text);

}  // namespace vesta::capture
