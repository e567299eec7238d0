// backend/cpu/target_machine.h: LLVM's view of a target.
#pragma once

#include <memory>

#include "backend/cpu/target.h"
#include "codegen/module.h"

namespace hologram::cpu {

/// The machine that translates modules for this target, whatever this processor is.
std::unique_ptr<llvm::TargetMachine> machine_for(const Target& target,
                                                 codegen::Effort effort = codegen::Effort::full);

}  // namespace hologram::cpu
