// backend/cuda/target.cpp: for which GPUs, and by which sources, kernels are made.
#include "backend/cuda/target.h"

#include "backend/cuda/sources.h"

namespace hologram::cuda {

const codegen::TargetTraits& target(int capability) {
  auto make = [](const char* cpu) {
    codegen::TargetTraits t;
    t.triple = "nvptx64-nvidia-cuda";
    t.cpu = cpu;
    t.features = "+ptx80";
    t.jumps_stores = true;
    return t;
  };
  static const codegen::TargetTraits least = make("sm_80"), hopper = make("sm_90a");
  return capability == 90 ? hopper : least;
}

std::string_view version() { return sources_hash; }

}  // namespace hologram::cuda
