// backend/cuda/settings.cpp: reading the environment.
#include "backend/cuda/settings.h"

#include "base/settings.h"

namespace hologram::cuda {

Settings read_settings() {
  return {settings::is_on("HOLOGRAM_CUDA_SYNC"),
          static_cast<int>(settings::number("HOLOGRAM_CUDA_BLOCK").value_or(usual_block)),
          settings::is_on("HOLOGRAM_CUDA_WITNESS")};
}

}  // namespace hologram::cuda
