// codegen/module.cpp: what runs on the generated IR, and its translation to an object.
#include "codegen/module.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/BasicAliasAnalysis.h>
#include <llvm/Analysis/BlockFrequencyInfo.h>
#include <llvm/Analysis/BranchProbabilityInfo.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/Analysis/ProfileSummaryInfo.h>
#include <llvm/Analysis/ScopedNoAliasAA.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/Analysis/TypeBasedAliasAnalysis.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/IR/PassInstrumentation.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Mem2Reg.h>

#include <mutex>

#include "base/error.h"

namespace hologram::codegen {
namespace {

// What of LLVM's list for unoptimised code, with the register allocator of its other lists, takes
// more time than it saves in few calls.
constexpr llvm::StringRef left_out[] = {"Machine Instruction Scheduler", "Stack Slot Coloring",
                                        "Machine Copy Propagation Pass",
                                        "Machine Loop Invariant Code Motion"};

class WithoutLateImprovements final : public llvm::OptPassGate {
 public:
  bool shouldRunPass(llvm::StringRef pass, llvm::StringRef) override {
    return !llvm::is_contained(left_out, pass);
  }
  bool isEnabled() const override { return true; }
};

// LLVM's allocator for unoptimised code keeps nothing in registers from one block to the next: sums
// of products would be read and written at each step. Its option matters to quick machines alone.
void allocate_registers_well() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto& options = llvm::cl::getRegisteredOptions();
    if (auto found = options.find("optimize-regalloc"); found != options.end())
      found->second->addOccurrence(1, "optimize-regalloc", "true");
  });
}

class WithoutStrengthReduction final : public llvm::OptPassGate {
 public:
  bool shouldRunPass(llvm::StringRef pass, llvm::StringRef) override {
    return pass != "Loop Strength Reduction";
  }
  bool isEnabled() const override { return true; }
};

}  // namespace

std::unique_ptr<llvm::TargetMachine> make_machine(const TargetTraits& traits, Effort effort) {
  const bool quick = effort == Effort::quick;
  if (quick) allocate_registers_well();
  std::string error;
  const llvm::Target* t = llvm::TargetRegistry::lookupTarget(traits.triple, error);
  if (!t) fail(ErrorCode::internal, "internal error in codegen: {}", error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.EmulatedTLS = false;
  std::unique_ptr<llvm::TargetMachine> machine(t->createTargetMachine(
      traits.triple, traits.cpu, traits.features, options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, quick ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default,
      true));
  check(machine != nullptr, "codegen: no TargetMachine");
  return machine;
}

std::unique_ptr<llvm::Module> make_module(const char* name, llvm::LLVMContext& context,
                                          const llvm::TargetMachine& machine) {
  auto module = std::make_unique<llvm::Module>(name, context);
  module->setTargetTriple(machine.getTargetTriple().str());
  module->setDataLayout(machine.createDataLayout());
  return module;
}

void check_module(const llvm::Module& module) {
  std::string message;
  llvm::raw_string_ostream out(message);
  if (llvm::verifyModule(module, &out))
    fail(ErrorCode::internal, "internal error in codegen: {}", message);
}

namespace {

// What passes ask LLVM for while they run: no more, since a PassBuilder's list would bring them
// all.
struct Analyses {
  llvm::FunctionAnalysisManager functions;
  llvm::ModuleAnalysisManager modules;

  Analyses() {
    functions.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
    functions.registerPass([] { return llvm::AssumptionAnalysis(); });
    functions.registerPass([] { return llvm::DominatorTreeAnalysis(); });
    functions.registerPass([] { return llvm::PostDominatorTreeAnalysis(); });
    functions.registerPass([] { return llvm::LoopAnalysis(); });
    functions.registerPass([] { return llvm::BranchProbabilityAnalysis(); });
    functions.registerPass([] { return llvm::BlockFrequencyAnalysis(); });
    functions.registerPass([] { return llvm::TargetIRAnalysis(); });
    functions.registerPass([] { return llvm::TargetLibraryAnalysis(); });
    functions.registerPass([] { return llvm::BasicAA(); });
    functions.registerPass([] { return llvm::ScopedNoAliasAA(); });
    functions.registerPass([] { return llvm::TypeBasedAA(); });
    functions.registerPass([] {
      llvm::AAManager aliases;  // as PassBuilder has it
      aliases.registerFunctionAnalysis<llvm::BasicAA>();
      aliases.registerFunctionAnalysis<llvm::ScopedNoAliasAA>();
      aliases.registerFunctionAnalysis<llvm::TypeBasedAA>();
      return aliases;
    });
    functions.registerPass([&] { return llvm::ModuleAnalysisManagerFunctionProxy(modules); });
    modules.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
    modules.registerPass([] { return llvm::ProfileSummaryAnalysis(); });
    modules.registerPass([&] { return llvm::FunctionAnalysisManagerModuleProxy(functions); });
  }
};

}  // namespace

void inline_marked(llvm::Module& module) {
  Analyses analyses;
  llvm::ModulePassManager passes;
  passes.addPass(llvm::AlwaysInlinerPass());
  passes.run(module, analyses.modules);
}

void optimise(llvm::Module& module) {
  Analyses analyses;
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::PromotePass());
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::SimplifyCFGPass());
  for (llvm::Function& f : module)
    if (!f.isDeclaration()) passes.run(f, analyses.functions);
}

std::string translate(llvm::Module& module, llvm::TargetMachine& machine, bool assembly,
                      unsigned most_reduced) {
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream out(buffer);
  static WithoutStrengthReduction gate;
  static WithoutLateImprovements quick_gate;
  if (machine.getOptLevel() == llvm::CodeGenOptLevel::None)
    module.getContext().setOptPassGate(quick_gate);
  else if (module.getInstructionCount() > most_reduced)
    module.getContext().setOptPassGate(gate);
  llvm::legacy::PassManager passes;
  auto kind = assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  check(!machine.addPassesToEmitFile(passes, out, nullptr, kind),
        "codegen: no way to emit an object");
  passes.run(module);
  return std::string(buffer.begin(), buffer.end());
}

}  // namespace hologram::codegen
