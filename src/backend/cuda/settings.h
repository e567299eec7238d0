// backend/cuda/settings.h: what the environment asks of this backend.
#pragma once

namespace hologram::cuda {

inline constexpr int usual_block = 256;  // threads of a point kernel's CTA

struct Settings {
  bool waits = false;       ///< HOLOGRAM_CUDA_SYNC=1: a launch ends when its work is done
  int block = usual_block;  ///< HOLOGRAM_CUDA_BLOCK: threads of a point kernel's CTA
  bool hears = true;        ///< HOLOGRAM_CUDA_WITNESS=0: doubtful code is used without a witness
};

/// As the environment is now. Throws Error(invalid_argument) for a block that is no multiple of 32
/// from 32 to 1024.
Settings read_settings();

}  // namespace hologram::cuda
