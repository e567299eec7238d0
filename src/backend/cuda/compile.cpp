// backend/cuda/compile.cpp: Atlas program → LLVM module → PTX.
#include "backend/cuda/compile.h"

#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <mutex>

#include "atlas/empty.h"
#include "atlas/walk.h"
#include "backend/cuda/accesses.h"
#include "backend/cuda/attention/emit.h"
#include "backend/cuda/attention_grad/emit.h"
#include "backend/cuda/attention/wide.h"
#include "backend/cuda/function.h"
#include "backend/cuda/loops/emit.h"
#include "backend/cuda/products/emit.h"
#include "backend/cuda/products/wide.h"
#include "backend/cuda/sort/sort.h"
#include "codegen/module.h"

namespace hologram::cuda {
namespace {

constexpr size_t most_parameters = 4096 / 8;  // what PTX 8.0 passes to a kernel, in words
// Instructions with loop strength reduction: PTX adds up each address by instructions of its own, and
// ptxas spilled a register of attention where it was left out.
constexpr unsigned most_reduced = 4000;

std::unique_ptr<llvm::TargetMachine> machine(int capability) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  return make_machine(target(capability));
}

// Helper functions into the kernel, so that it calls nothing.
void inline_helpers(llvm::Module& module) {
  for (llvm::Function& f : module)
    if (!f.isDeclaration() && f.getCallingConv() != llvm::CallingConv::PTX_Kernel) {
      f.setLinkage(llvm::GlobalValue::InternalLinkage);
      f.removeFnAttr(llvm::Attribute::NoInline);
      f.addFnAttr(llvm::Attribute::AlwaysInline);
    }
  inline_marked(module);
}

// A buffer that is only read may be one that the kernel writes, where a plan reuses an operand in
// place: no load may go through caches that do not see stores.
void forget_constancy(llvm::Module& module) {
  for (llvm::Function& f : module)
    for (llvm::BasicBlock& b : f)
      for (llvm::Instruction& i : b) i.setMetadata(llvm::LLVMContext::MD_invariant_load, nullptr);
}

Facts emit_block(llvm::Module& module, const atlas::Program& program, int block) {
  switch (program.kind()) {
    case atlas::BlockKind::product:
      return emit_product_block(module, program);
    case atlas::BlockKind::attention:
      return emit_attention_block(module, program);
    case atlas::BlockKind::sort:
      return emit_sort_block(module, program);
    case atlas::BlockKind::attention_grad:
      return emit_attention_grad_block(module, program);
    default:
      return emit_loop_block(module, program, block);
  }
}

// One kernel's module; LLVM's context goes with it.
struct Unit {
  atlas::Program program;
  Facts facts;
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> target_machine;
  std::unique_ptr<llvm::Module> module;

  Unit(const atlas::Program& p, int capability, int block) : program(p) {
    if (!is_special(p, capability)) capability = least_capability;
    atlas::expand_math(program);
    context.setDiagnosticHandlerCallBack([](const llvm::DiagnosticInfo*, void*) {});
    target_machine = machine(capability);
    module = make_module("hologram", context, *target_machine);
    if (capability != least_capability) set_capability(*module, capability);
    facts = emit_block(*module, program, block);
    forget_constancy(*module);
    choose_accesses(*module);
    check_module(*module);
    inline_helpers(*module);
    optimise(*module);
  }
};

}  // namespace

std::optional<std::string> unrendered(const atlas::Program& program) {
  constexpr size_t others = 5 + 3 * 16;  // three tensor maps
  if (program.buffers.size() + static_cast<size_t>(program.num_symbols) + others > most_parameters)
    return "more parameters than a kernel takes";
  switch (program.kind()) {
    case atlas::BlockKind::loop:
      return unrendered_loop(program.loop());
    case atlas::BlockKind::product:
      return unrendered_product(program.product());
    case atlas::BlockKind::attention:
      return unrendered_attention(program.attention());
    case atlas::BlockKind::sort:
      return std::nullopt;
    case atlas::BlockKind::attention_grad:
      return unrendered_attention_grad(program.attention_grad());
    default:
      return fmt::format("blocks of kind {}", static_cast<int>(program.kind()));
  }
}

bool is_special(const atlas::Program& program, int capability) {
  if (capability != 90 || unrendered(program)) return false;
  if (program.kind() == atlas::BlockKind::attention) return has_wide_attention(program);
  return program.kind() == atlas::BlockKind::product && has_wide_product(program);
}

Stored compile(const atlas::Program& program, int capability, int block) {
  Unit unit(program, capability, block);
  return {translate(*unit.module, *unit.target_machine, true, most_reduced), unit.facts, false};
}

std::string dump_llvm(const atlas::Program& program, int capability, int block) {
  Unit unit(program, capability, block);
  std::string text;
  llvm::raw_string_ostream out(text);
  unit.module->print(out, nullptr);
  return text;
}

std::string dump_ptx(const atlas::Program& program, int capability, int block) {
  return compile(program, capability, block).code;
}

}  // namespace hologram::cuda
