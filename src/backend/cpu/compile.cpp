// backend/cpu/compile.cpp: Atlas program → LLVM module → object.
#include "backend/cpu/compile.h"

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Object/Wasm.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <chrono>

#include "atlas/empty.h"
#include "backend/cpu/attention/emit.h"
#include "backend/cpu/exponential.h"
#include "backend/cpu/function.h"
#include "backend/cpu/loops/bounds.h"
#include "backend/cpu/loops/emit.h"
#include "backend/cpu/loops/half_vectors.h"
#include "backend/cpu/loops/place_scratch.h"
#include "backend/cpu/loops/ranges.h"
#include "backend/cpu/plan.h"
#include "backend/cpu/products/digits.h"
#include "backend/cpu/products/emit.h"
#include "backend/cpu/products/narrow.h"
#include "backend/cpu/products/register_tile.h"
#include "backend/cpu/products/small.h"
#include "backend/cpu/products/stream.h"
#include "backend/cpu/products/winograd.h"
#include "backend/cpu/target_machine.h"
#include "backend/cpu/tiles/product.h"
#include "backend/cpu/wasm_image.h"
#include "base/error.h"

namespace hologram::cpu {
namespace {

void emit(CpuFunction& k, const EmptyPlan&) { k.finish(); }

// Milliseconds since the last call.
class Clock {
 public:
  double lap() {
    auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::milli>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// `program` as this target renders it.
atlas::Program expanded(const atlas::Program& original, const Target& target) {
  atlas::Program program = original;
  atlas::drop_columnless_product(program);
  atlas::expand_math(program, [&](ir::Op op, DType type) { return renders(target, op, type); });
  mark_bounded(program);
  if (target.keeps_nan) mark_low_nan(program);
  place_scratch(program);
  order_equalities(program);
  return program;
}

Launch launch_by(const Plan& plan, const atlas::Program& program, const Target& target) {
  return std::visit([&](const auto& p) { return launch_of(p, program, target); }, plan);
}

// One kernel's module; LLVM's context goes with it.
struct Unit {
  const Target target;
  atlas::Program program;
  Plan plan;
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;

  Unit(const atlas::Program& p, const Target& t, Timing* timing = nullptr,
       codegen::Effort effort = codegen::Effort::full)
      : target(target_for(p, t)) {
    Clock clock;
    program = expanded(p, target);
    plan = plan_of(program, target);
    context.setDiagnosticHandlerCallBack([](const llvm::DiagnosticInfo*, void*) {});
    machine = machine_for(target, effort);
    module = make_module("hologram", context, *machine);
    if (timing) timing->setup = clock.lap();
    CpuFunction k(*module, program, target);
    k.rounds_twice =
        program.kind() == atlas::BlockKind::product && may_round_twice(program.product());
    std::visit([&](const auto& chosen) { emit(k, chosen); }, plan);
    check_module(*module);
    inline_marked(*module);
    if (timing) timing->emit = clock.lap();
  }
};

// Unoptimised code configures tiles in its own way.
bool uses_tiles(const llvm::Module& module) {
  return std::ranges::any_of(
      module, [](const llvm::Function& f) { return f.getName().starts_with("llvm.x86.tile"); });
}

int64_t longest_block(const llvm::Module& module) {
  size_t n = 0;
  for (const llvm::Function& f : module)
    for (const llvm::BasicBlock& b : f) n = std::max(n, b.size());
  return static_cast<int64_t>(n);
}

// No kernel may call or read anything outside itself, but for what every module of WebAssembly
// gets.
void check_symbols(const std::string& code, const Target& target) {
  // By its kind: what tells kinds apart would bring the readers of all.
  using llvm::object::ObjectFile;
  const llvm::MemoryBufferRef buffer(code, "kernel");
  auto read = [](auto object) -> std::unique_ptr<ObjectFile> {
    if (!object)
      fail(ErrorCode::internal, "internal error in codegen: {}",
           llvm::toString(object.takeError()));
    return std::move(*object);
  };
  const std::unique_ptr<ObjectFile> object = target.isa == Isa::wasm
                                                 ? read(ObjectFile::createWasmObjectFile(buffer))
                                                 : read(ObjectFile::createELFObjectFile(buffer));
  for (const llvm::object::SymbolRef& s : object->symbols()) {
    auto flags = s.getFlags();
    auto name = s.getName();
    if (!flags || !name)
      fail(ErrorCode::internal, "internal error in codegen: unreadable symbol table");
    bool outside = (*flags & llvm::object::SymbolRef::SF_Undefined) && !name->empty() &&
                   !(target.isa == Isa::wasm && comes_with_modules(*name));
    if (outside)
      fail(ErrorCode::internal, "internal error in codegen: the kernel needs the symbol {}",
           name->str());
  }
}

}  // namespace

Object compile(const atlas::Program& program, const Target& target, Timing* timing,
               const char* symbol, codegen::Effort effort) {
  Unit unit(program, target, timing, effort);
  if (effort == codegen::Effort::quick && uses_tiles(*unit.module))
    unit.machine = machine_for(target);
  unit.module->getFunction(kernel_symbol)->setName(symbol);
  if (timing) timing->instructions = unit.module->getInstructionCount();
  Clock clock;
  optimise(*unit.module);
  if (timing) {
    timing->passes = clock.lap();
    timing->optimised = unit.module->getInstructionCount();
    timing->longest = longest_block(*unit.module);
    clock.lap();
  }
  Object object{translate(*unit.module, *unit.machine, false),
                launch_by(unit.plan, unit.program, unit.target)};
  if (timing) timing->translate = clock.lap();
  check_symbols(object.code, target);
  return object;
}

Launch launch_of(const atlas::Program& original, const Target& machine) {
  const Target target = target_for(original, machine);
  const atlas::Program program = expanded(original, target);
  return launch_by(plan_of(program, target), program, target);
}

std::string dump_llvm(const atlas::Program& program, const Target& target) {
  Unit unit(program, target);
  optimise(*unit.module);
  std::string text;
  llvm::raw_string_ostream out(text);
  unit.module->print(out, nullptr);
  return text;
}

std::string dump_asm(const atlas::Program& program, const Target& target) {
  Unit unit(program, target);
  optimise(*unit.module);
  return translate(*unit.module, *unit.machine, true);
}

}  // namespace hologram::cpu
