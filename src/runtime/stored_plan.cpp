// runtime/stored_plan.cpp: plans with their machine code, which another process made.
#include "runtime/stored_plan.h"

#include "backend/native_launcher.h"
#include "runtime/loaded_image.h"
#include "runtime/planning.h"
#include "schedule/binary.h"

namespace hologram::runtime {

using schedule::decode_expr;

std::shared_ptr<Executable> load_stored(const StoredPlan& stored,
                                        std::shared_ptr<Runtime> runtime) {
  ByteReader in(stored.plan, "stored plan");
  schedule::Plan plan = schedule::decode_plan(in);
  if (stored.code.empty()) in.error("no code");
  const auto image = std::make_shared<LoadedImage>(stored.code);
  std::vector<std::shared_ptr<const Kernel>> kernels;
  std::vector<uint64_t> symbols;
  constexpr uint64_t most_symbols = 1 << 16;
  for (size_t i = 0; i < plan.fingerprints.size(); ++i) {
    Kernel k;
    k.code = image->at(in.uint(stored.code.size() - 1));
    symbols.push_back(in.uint(most_symbols));
    for (Expr* e : {&k.total, &k.grain, &k.unit_work})
      *e = decode_expr(in, static_cast<int>(symbols.back()));
    k.keep = image;
    kernels.push_back(std::make_shared<const Kernel>(std::move(k)));
  }
  const void* run_all = image->at(in.uint(stored.code.size() - 1));
  if (!in.at_end()) in.error("bytes behind the plan");
  for (const schedule::Step& s : plan.steps)
    if (s.kind == schedule::StepKind::kernel &&
        s.symbols.size() < symbols[static_cast<size_t>(s.program)])
      in.error("a step without some of its program's sizes");
  auto launcher = std::make_unique<NativeLauncher>(
      entry_steps(plan), kernels, reinterpret_cast<atlas::EntryFn>(const_cast<void*>(run_all)),
      image);
  return Executable::of_plan(std::move(plan), std::move(kernels), std::move(launcher),
                             std::move(runtime));
}

}  // namespace hologram::runtime
