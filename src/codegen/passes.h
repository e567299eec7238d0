// codegen/passes.h: what runs on the generated IR, and its translation to an object.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "codegen/codegen.h"

namespace hologram::codegen {

std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target);

/// The pass list; docs/codegen.md says what each one buys.
void optimise(llvm::Module& module);

/// Object code, or assembly text.
std::string translate(llvm::Module& module, llvm::TargetMachine& machine, bool assembly);

}  // namespace hologram::codegen
