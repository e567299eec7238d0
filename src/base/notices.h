// base/notices.h: warnings for whoever logs: the C interface's callback or Python's `logging`.
#pragma once

#include <string>
#include <vector>

namespace hologram {

/// Keeps a warning until it is taken; the same text is kept once in a process.
void notice(std::string text) noexcept;
/// Those that nobody has taken yet. Costs a load where there are none.
std::vector<std::string> take_notices();

}  // namespace hologram
