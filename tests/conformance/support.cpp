// tests/conformance/support.cpp: runtimes of the tests, and the list of what backends leave out.
#include "conformance/support.h"

#include "backend/cpu/backend.h"
#include "backend/registry.h"
#include "base/error.h"
#include "runtime/run_program.h"
#include "support/differential.h"
#include "support/tiles.h"

namespace hologram::test {
namespace {

/// By backend what it may leave out, and why. A backend is done when it has none.
const std::map<std::string, std::map<std::string, std::string>, std::less<>> unsupported = {
    {"cpu", {{"TileProducts", "their panels are those of tiles: cpu_tiles runs them"}}},
    {"cpu_quickly", {{"TileProducts", "their panels are those of tiles"}}},
    {"cpu_tiles", {}},
    {"cuda",
     {{"TileProducts", "their panels are those of AMX tiles"},
      {"Machines.SpecialOperandsOfBfloat16Products",
       "tensor cores add 16 products at once: what is left of numbers that cancel is another"}}},
    {"interp", {}},
    {"null", {}},
    {"webgpu",
     {{"TileProducts", "their panels are those of AMX tiles"},
      {"Machines.SpecialOperandsOfBfloat16Products", "infinities of products come and go"},
      {"Reduce.ColumnsByPartial", "sums of thousands of numbers that cancel"},
      {"AttentionGrad.shapes", "weights of up to 10^6 that cancel: AttentionGradHalves has the same by bounds"},
      {"AttentionGrad.scores", "weights of up to 10^6 that cancel"},
      {"AttentionGrad.symbolic_sizes", "weights of up to 10^6 that cancel"},
      {"Reduce.SumsOfManyLengthsDownColumns", "llvmpipe ends a thread's loops after 65,535 rounds"},
      {"Ops.FmodAndFmaOnRandomBits", "what is left below 2^-126 of a product is another"}}},
};

/// cpu, whose kernels are made quickly.
class QuickBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu_quickly"; }
  std::string code_key() const override { return "quickly " + cpu_->code_key(); }
  const schedule::Machine& machine() const override { return cpu_->machine(); }
  std::optional<Kernel> builtin(const atlas::Program& program, const Fingerprint&) const override { return cpu_->quick_kernel(program); }
  std::string compile(const atlas::Program& program) const override { return cpu_->compile(program); }
  Kernel load(const atlas::Program& program, std::string_view code) const override { return cpu_->load(program, code); }
  std::unique_ptr<Launcher> launcher(std::span<const atlas::EntryStep> steps, std::span<const std::shared_ptr<const Kernel>> kernels,
                                     CodeStore&) const override {
    return cpu_->quick_launcher(steps, kernels);
  }
  std::unique_ptr<LaneKernel> compile_lanes(const atlas::LaneProgram& program) const override { return cpu_->compile_lanes(program); }

 private:
  std::unique_ptr<Backend> cpu_ = cpu::make_backend();
};

#if defined(__x86_64__) && defined(__linux__)
constexpr bool has_tile_targets = true;

std::shared_ptr<runtime::Runtime> tile_runtime() {
  static const TileMachine machine;
  cpu::Target target = tile_target();
  target.terms = cpu::Terms::model;
  auto out = std::make_shared<runtime::Runtime>(cpu::make_backend(target));
  out->threads().set_num_threads(1);  // signals of others are blocked, the emulator's too
  return out;
}
#else
constexpr bool has_tile_targets = false;
bool runs_tile_targets() { return false; }
std::shared_ptr<runtime::Runtime> tile_runtime() { return nullptr; }
#endif

std::shared_ptr<runtime::Runtime> make_runtime(std::string_view backend) {
  if (backend == "cpu_tiles") return tile_runtime();
  if (backend == "cpu_quickly") return std::make_shared<runtime::Runtime>(std::make_unique<QuickBackend>());
  return std::make_shared<runtime::Runtime>(backend);
}

}  // namespace

const std::vector<std::string>& tried_backends() {
  static const auto* const names = [] {
    auto* all = new std::vector<std::string>;
    for (const RegisteredBackend& b : registered_backends()) all->emplace_back(b.name);
    if (!std::getenv("HOLOGRAM_TEST_BACKENDS")) std::erase(*all, "webgpu");
    if (has_tile_targets && runs_tile_targets()) all->emplace_back("cpu_tiles");
    if (const char* some = std::getenv("HOLOGRAM_TEST_BACKENDS"))
      std::erase_if(*all,
                    [names = fmt::format(",{},", some)](const std::string& name) { return names.find("," + name + ",") == names.npos; });
    return all;
  }();
  return *names;
}

const std::vector<std::string>& corpus_backends() {
  static const auto* const names = [] {
    auto* all = new std::vector<std::string>(tried_backends());
    const RegisteredBackend* webgpu = find_backend("webgpu");
    const bool named = std::getenv("HOLOGRAM_TEST_BACKENDS") != nullptr;
    if (!named && webgpu && webgpu->device_count() > 0) all->emplace_back("webgpu");
    if (!named) all->emplace_back("cpu_quickly");
    return all;
  }();
  return *names;
}

const std::shared_ptr<runtime::Runtime>& runtime_of(std::string_view backend) {
  static std::map<std::string, std::shared_ptr<runtime::Runtime>, std::less<>> made;
  auto at = made.find(backend);
  if (at == made.end()) at = made.emplace(backend, make_runtime(backend)).first;
  return at->second;
}

Buffers data_for(const atlas::Program& program, const std::vector<int64_t>& symbols, int specials, uint64_t seed) {
  std::mt19937_64 random(seed);
  Buffers buffers;
  for (const atlas::Buffer& b : program.buffers) {
    if (b.access == atlas::Access::scratch) continue;
    const int64_t count = b.extent.eval(symbols);
    buffers.emplace_back(static_cast<size_t>(count * size_of(b.dtype)));
    fill(reinterpret_cast<char*>(buffers.back().data()), b.dtype, count, random, specials);
  }
  return buffers;
}

Buffers run_on(runtime::Runtime& runtime, const atlas::Program& program, const std::vector<int64_t>& symbols, Buffers buffers,
               std::string& error) {
  std::vector<runtime::Bytes> spans(buffers.begin(), buffers.end());
  try {
    runtime::run_program(runtime, program, spans, symbols);
  } catch (const Error& e) {  // an index of these data may be out of range: everywhere then
    error = e.what();
  }
  return buffers;
}

// On WebGPU sums have an order of their own, and what is below 2^-126 another rounding.
static Promise promise_on_webgpu(const atlas::Program& program, int specials) {
  if (program.kind() == atlas::BlockKind::product) return {0, 1e-4};
  // Weights of random sums of exponentials are up to 10^6, and cancel.
  if (program.kind() == atlas::BlockKind::attention_grad) return {0, 1e-2};
  if (program.kind() != atlas::BlockKind::loop) return {specials, 0};
  bool sums = false;
  for (const atlas::Stage& stage : program.loop().stages) {
    for (const atlas::Reduction& r : stage.reductions) sums = sums || (is_float(r.type) && r.op <= ir::Op::reduce_prod);
    for (const auto& [op, type] : stage.running) sums = sums || (is_float(type) && op <= ir::Op::reduce_prod);
  }
  return sums ? Promise{0, 1e-4} : Promise{specials, 1e-37};
}

Promise promise_on(std::string_view backend, const atlas::Program& program, int specials) {
  // Sums over keys go by blocks of each backend's own.
  if (program.kind() == atlas::BlockKind::attention) return {0, 1e-5};
  if (backend == "webgpu") return promise_on_webgpu(program, specials);
  if (program.kind() != atlas::BlockKind::product || program.product().reproducible) return {specials, 0};
  // Tensor cores add in an order of their own and cut sums towards zero: a result may round to a neighbour of its 16-bit type, and products
  // of float32 by terms have other roundings than chains, as small beside the sum of |x||y|: numbers that cancel may leave others.
  if (backend == "cuda") {
    const DType t = program.product().operand_type;
    if (t == DType::bf16 || t == DType::f16) return {0, 0x1p-6};
    if (t == DType::f32) return {0, 0x1p-11};
  }
  // Instructions that add pairs may take numbers below 2^-126 for 0, and overflow where a chain
  // does not (docs/numerics.md); reproducible products are chains.
  for (const atlas::Buffer& b : program.buffers)
    if (b.dtype == DType::bf16) return {0, 0x1p-126};
  return {specials, 0};
}

bool excused(std::string_view backend, const std::string& name) {
  const auto list = unsupported.find(backend);
  return list != unsupported.end() && list->second.contains(name);
}

}  // namespace hologram::test
