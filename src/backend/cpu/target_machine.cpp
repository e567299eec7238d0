// backend/cpu/target_machine.cpp: LLVM's view of a target.
#include "backend/cpu/target_machine.h"

#include <llvm/Support/TargetSelect.h>

#include <mutex>

namespace hologram::cpu {
namespace {

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeWebAssemblyTargetInfo();
    LLVMInitializeWebAssemblyTarget();
    LLVMInitializeWebAssemblyTargetMC();
    LLVMInitializeWebAssemblyAsmPrinter();
  });
}

}  // namespace

std::unique_ptr<llvm::TargetMachine> machine_for(const Target& target, codegen::Effort effort) {
  initialise_llvm();
  return make_machine(target, effort);
}

}  // namespace hologram::cpu
