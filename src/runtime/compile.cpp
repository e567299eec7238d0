// runtime/compile.cpp: graph → canonical form → plan → kernels.
#include <algorithm>
#include <atomic>
#include <chrono>

#include "canon/canon.h"
#include "host/side_by_side.h"
#include "ir/sizes.h"
#include "runtime/planning.h"

namespace hologram::runtime {
namespace {

class Stopwatch {
 public:
  explicit Stopwatch(double& milliseconds) : out_(milliseconds) {}
  ~Stopwatch() {
    out_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
                .count();
  }

 private:
  double& out_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// What compiling a kernel takes of one core, in picoseconds: less than strips that take so long
// lose.
constexpr double compile_work = 15e9;

// What running a program once by `kernel` takes of one core, in picoseconds, in all steps of a plan
// whose sizes are known.
double work_of(const schedule::Plan& plan, size_t program, const Kernel& kernel) {
  double work = 0;
  std::vector<int64_t> sizes;
  for (const schedule::Step& step : plan.steps) {
    if (step.program != static_cast<int>(program)) continue;
    if (!std::ranges::all_of(step.symbols, &Expr::is_const)) return 0;
    sizes.clear();
    for (const Expr& e : step.symbols) sizes.push_back(e.constant());
    work += static_cast<double>(kernel.total.eval(sizes)) *
            static_cast<double>(kernel.unit_work.eval(sizes));
  }
  return work;
}

int count_ops(const ir::Graph& graph) {
  int n = 0;
  for (ir::Value v : ir::live_nodes(graph)) {
    auto kind = ir::info(v->op).kind;
    n += kind != ir::OpKind::leaf && kind != ir::OpKind::external_result;
  }
  return n;
}

}  // namespace

bool can_compile() { return true; }

std::vector<std::shared_ptr<const Kernel>> Executable::load_kernels(Quality quality,
                                                                    CompileReport& report) {
  std::vector<std::shared_ptr<const Kernel>> kernels(plan_.programs.size());
  std::atomic<int> count[4] = {};
  host::side_by_side(plan_.programs.size(), [&](size_t i) {
    KernelSource source;
    auto get = [&](Quality wanted) {
      return runtime_->kernels().get(plan_.programs[i], plan_.fingerprints[i], &source, wanted);
    };
    kernels[i] = get(quality);
    if (kernels[i]->routine && work_of(plan_, i, *kernels[i]) > compile_work)
      kernels[i] = get(Quality::best);
    ++count[static_cast<int>(source)];
  });
  auto from = [&](KernelSource source) { return count[static_cast<int>(source)].load(); };
  report.memory_hits = from(KernelSource::memory);
  report.builtin = from(KernelSource::builtin);
  report.disk_hits = from(KernelSource::disk);
  report.compiled = from(KernelSource::compiled);
  return kernels;
}

std::shared_ptr<Code> Executable::link(std::vector<std::shared_ptr<const Kernel>> kernels,
                                       Quality quality) const {
  const Backend& backend = runtime_->backend();
  auto code = std::make_shared<Code>();
  code->kernels = std::move(kernels);
  if (quality == Quality::any) code->launcher = backend.quick_launcher(entry_steps_, code->kernels);
  if (!code->launcher)
    code->launcher = backend.launcher(entry_steps_, code->kernels, runtime_->kernels().disk());
  code->launcher->set_graphs(graphs_);
  return code;
}

CompileReport Executable::finish() {
  CompileReport report;
  if (!provisional_) return report;
  {
    Stopwatch watch(report.milliseconds["codegen"]);
    set_code(link(load_kernels(Quality::best, report), Quality::best));
  }
  provisional_ = false;
  return report;
}

schedule::Plan plan_for(const ir::Graph& graph, const CompileOptions& options,
                        const Backend& backend, CompileReport& report) {
  if (options.reproducible && !backend.irreproducible().empty())
    fail(ErrorCode::unsupported, "compile: reproducible results on \"{}\": {}", backend.name(),
         backend.irreproducible());
  report.ops_before = count_ops(graph);
  ir::Graph canonical;
  canon::Report fired;
  {
    Stopwatch watch(report.milliseconds["canon"]);
    canon::canonicalize(graph, canonical, fired, {options.reproducible, options.fast});
    for (const auto& [name, n] : fired.fired) report.rules[std::string(name)] = static_cast<int>(n);
  }
  Stopwatch watch(report.milliseconds["schedule"]);
  schedule::Options o;
  o.reproducible = options.reproducible;
  o.fast = options.fast;
  o.machine = &backend.machine();
  o.is_static = [&](int i) {
    auto k = static_cast<size_t>(i);
    return k < options.static_parameters.size() && options.static_parameters[k];
  };
  try {
    schedule::Plan plan = schedule::make_plan(canonical, o);
    for (schedule::Step& step : plan.steps) {
      auto& made = report.operations.emplace_back();
      for (uint32_t id : step.nodes)
        made.emplace_back(ir::name_of(canonical.nodes()[id].op), fired.origins[id]);
      std::exchange(step.nodes, {});
    }
    return plan;
  } catch (const Error& e) {
    // Programs of a graph that leaves its arrays for every size are refused, too: its maker's
    // fault.
    if (e.code() == ErrorCode::internal) ir::require_right_sizes(graph);
    throw;
  }
}

std::shared_ptr<Executable> Executable::compile(const ir::Graph& graph,
                                                const CompileOptions& options,
                                                std::shared_ptr<Runtime> runtime) {
  std::shared_ptr<Executable> e(new Executable(std::move(runtime)));
  CompileReport& report = e->report_;
  Runtime& shared = *e->runtime_;
  e->plan_ = plan_for(graph, options, shared.backend(), report);
  std::vector<std::shared_ptr<const Kernel>> kernels;
  {
    Stopwatch watch(report.milliseconds["codegen"]);
    kernels = e->load_kernels(options.quickly ? Quality::any : Quality::best, report);
  }
  e->provisional_ = std::ranges::any_of(kernels, [](const auto& k) { return k->quick; });
  if (options.host_operands && shared.device()) e->keep_on_device(options.static_parameters);
  e->prepare();
  e->graphs_ = options.graphs;
  e->set_code(e->link(std::move(kernels), e->provisional_ ? Quality::any : Quality::best));
  e->fresh_ = options.quickly;
  report.ops_canonical = e->plan_.canonical_ops;
  report.kernels = static_cast<int>(e->plan_.programs.size());
  report.steps = static_cast<int>(e->plan_.steps.size());
  return e;
}

}  // namespace hologram::runtime
