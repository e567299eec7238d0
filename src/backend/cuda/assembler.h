// backend/cuda/assembler.h: PTX → machine code, by NVIDIA's ptxas where one is installed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hologram::cuda {

/// A ptxas that was found and asked for its version.
struct Assembler {
  std::string path;
  int major = 0, minor = 0;
  std::string version;  ///< "13.0.88"
};

/// The GPU's name for assemblers: "sm_90a" for compute capability 90.
std::string gpu_name(int capability);

/// Whether machine code that it makes for this GPU is right, and can be loaded by a driver for CUDA
/// `driver_version` (12040 for 12.4).
bool serves(const Assembler& assembler, int capability, int driver_version);

/// The ptxas that serves a GPU and its driver: the one that HOLOGRAM_CUDA_ASSEMBLER names, else the
/// newest beside the Python packages of this process (NVIDIA's nvidia-cuda-nvcc, Triton's two), of
/// $CUDA_HOME, $CUDA_PATH, PATH or /usr/local/cuda. Nothing where there is none, or where
/// HOLOGRAM_CUDA_ASSEMBLER is "driver". Throws Error(unavailable) for a named one that does not
/// run.
std::optional<Assembler> find_assembler(int capability, int driver_version);

/// What is at a path, if it is a ptxas that runs.
std::optional<Assembler> ask_assembler(const std::string& path);

/// Machine code, or why there is none.
struct Assembled {
  std::string cubin;
  std::string words;  ///< the assembler's
};
Assembled assemble(const Assembler& assembler, std::string_view ptx, int capability);

/// Machine code as text, by the nvdisasm beside the assembler or on PATH. Throws
/// Error(unavailable) where there is none.
std::string disassemble(const Assembler& assembler, std::string_view cubin);

}  // namespace hologram::cuda
