// host/side_by_side.h: pieces of work that may take long, on threads of their own.
#pragma once

#include <cstddef>
#include <functional>

namespace hologram::host {

/// Calls work(i) for i in [0, n) on the machine's cores; the first exception is thrown here.
void side_by_side(size_t n, const std::function<void(size_t)>& work);

}  // namespace hologram::host
