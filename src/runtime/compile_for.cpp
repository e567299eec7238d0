// runtime/compile_for.cpp: plans with their machine code, for another process to run.
#include "host/side_by_side.h"
#include "runtime/planning.h"
#include "runtime/stored_plan.h"
#include "schedule/binary.h"

namespace hologram::runtime {
namespace {

// As KernelCache keys them.
std::string code_of(const atlas::Program& program, const Fingerprint& content,
                    const Backend& backend, CodeStore* cache) {
  const Fingerprint key = fingerprint(content.hex() + backend.code_key());
  if (cache)
    if (auto code = cache->get(key)) return *code;
  std::string code = backend.compile(program);
  if (cache) cache->put(key, code);
  return code;
}

CodeImage image_of(const schedule::Plan& plan, const Backend& backend, CodeStore* cache) {
  std::vector<std::string> codes(plan.programs.size());
  host::side_by_side(codes.size(), [&](size_t i) {
    codes[i] = code_of(plan.programs[i], plan.fingerprints[i], backend, cache);
  });
  return backend.image(plan.programs, codes, entry_steps(plan));
}

}  // namespace

StoredPlan compile_for(const ir::Graph& graph, const CompileOptions& options,
                       const Backend& backend, CodeStore* cache) {
  CompileReport report;
  const schedule::Plan plan = plan_for(graph, options, backend, report);
  ByteWriter out;
  schedule::encode(out, plan);
  CodeImage image = image_of(plan, backend, cache);
  for (size_t i = 0; i < image.kernels.size(); ++i) {
    const CodeImage::Entry& k = image.kernels[i];
    out.uint(k.offset);
    out.uint(static_cast<uint64_t>(plan.programs[i].num_symbols));
    for (const Expr* e : {&k.total, &k.grain, &k.unit_work}) out.string(e->str());
  }
  out.uint(image.run_all);
  return {out.take(), std::move(image.bytes)};
}

}  // namespace hologram::runtime
