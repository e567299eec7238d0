// codegen/module.h: what runs on the generated IR, and its translation to an object.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "codegen/target.h"

namespace hologram::codegen {

/// Throws Error(internal) for a triple whose target LLVM has not been told of.
std::unique_ptr<llvm::TargetMachine> make_machine(const TargetTraits& traits,
                                                  Effort effort = Effort::full);

/// An empty module for this machine.
std::unique_ptr<llvm::Module> make_module(const char* name, llvm::LLVMContext& context,
                                          const llvm::TargetMachine& machine);

/// Throws Error(internal) with what LLVM has to say against the module.
void check_module(const llvm::Module& module);

/// Inlines the functions that are to be inlined wherever they are called.
void inline_marked(llvm::Module& module);

/// The pass list; docs/codegen.md says what each one buys.
void optimise(llvm::Module& module);

/// Object code, or assembly text. LLVM's loop strength reduction is left out beyond `most_reduced`
/// instructions: it compares all addresses of a loop with each other, half the time of a kernel
/// where they are dozens, which instructions that add up an address need little.
std::string translate(llvm::Module& module, llvm::TargetMachine& machine, bool assembly,
                      unsigned most_reduced = 700);

}  // namespace hologram::codegen
