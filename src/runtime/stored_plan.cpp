// runtime/stored_plan.cpp: plans with their machine code, which another process made.
#include "runtime/stored_plan.h"

#include "backend/native_launcher.h"
#include "host/loaded_image.h"
#include "host/side_by_side.h"
#include "runtime/planning.h"
#include "schedule/binary.h"

namespace hologram::runtime {

using schedule::decode_expr;

namespace {

using Kernels = std::vector<std::shared_ptr<const Kernel>>;

// What is behind a plan: places in its code, of which the last possible one is `last`.
CodeImage read_places(ByteReader& in, const schedule::Plan& plan, uint64_t last) {
  CodeImage places;
  std::vector<uint64_t> symbols;
  constexpr uint64_t most_symbols = 1 << 16;
  for (size_t i = 0; i < plan.fingerprints.size(); ++i) {
    CodeImage::Entry& k = places.kernels.emplace_back();
    k.offset = in.uint(last);
    symbols.push_back(in.uint(most_symbols));
    for (Expr* e : {&k.total, &k.grain, &k.unit_work})
      *e = decode_expr(in, static_cast<int>(symbols.back()));
  }
  places.run_all = in.uint(last);
  if (!in.at_end()) in.error("bytes behind the plan");
  for (const schedule::Step& s : plan.steps)
    if (s.kind == schedule::StepKind::kernel &&
        s.symbols.size() < symbols[static_cast<size_t>(s.program)])
      in.error("a step without some of its program's sizes");
  return places;
}

// A kernel's code ends where the next one's begins.
Kernels load_on_device(ByteReader& in, const schedule::Plan& plan, const CodeImage& places,
                       const std::string& code, const Backend& backend) {
  Kernels kernels(places.kernels.size());
  host::side_by_side(kernels.size(), [&](size_t i) {  // drivers take long to make pipelines
    const uint64_t begin = places.kernels[i].offset;
    const uint64_t end = i + 1 < kernels.size() ? places.kernels[i + 1].offset : places.run_all;
    if (begin > end) in.error("kernels that overlap");
    kernels[i] = std::make_shared<const Kernel>(
        backend.load({}, std::string_view(code).substr(begin, end - begin)));
  });
  for (const schedule::Step& s : plan.steps) {
    if (s.kind != schedule::StepKind::kernel) continue;
    const auto& takes = kernels[static_cast<size_t>(s.program)]->takes;
    if (takes && (takes->buffers != s.buffers.size() || takes->sizes != s.symbols.size()))
      in.error("a step of other buffers or sizes than its kernel's");
  }
  return kernels;
}

}  // namespace

std::shared_ptr<Executable> load_stored(const StoredPlan& stored,
                                        std::shared_ptr<Runtime> runtime) {
  ByteReader in(stored.plan, "stored plan");
  schedule::Plan plan = schedule::decode_plan(in);
  if (stored.code.empty()) in.error("no code");
  if (runtime->device()) {
    const CodeImage places = read_places(in, plan, stored.code.size());
    Kernels kernels = load_on_device(in, plan, places, stored.code, runtime->backend());
    auto launcher =
        runtime->backend().launcher(entry_steps(plan), kernels, runtime->kernels().disk());
    return Executable::of_plan(std::move(plan), std::move(kernels), std::move(launcher),
                               std::move(runtime));
  }
  const CodeImage places = read_places(in, plan, stored.code.size() - 1);
  const auto image = std::make_shared<host::LoadedImage>(stored.code);
  Kernels kernels;
  for (const CodeImage::Entry& k : places.kernels)
    kernels.push_back(std::make_shared<const Kernel>(
        Kernel{image->at(k.offset), k.total, k.grain, k.unit_work, image}));
  const void* run_all = image->at(places.run_all);
  auto launcher = std::make_unique<NativeLauncher>(
      entry_steps(plan), kernels, reinterpret_cast<atlas::EntryFn>(const_cast<void*>(run_all)),
      image);
  return Executable::of_plan(std::move(plan), std::move(kernels), std::move(launcher),
                             std::move(runtime));
}

}  // namespace hologram::runtime
