// python/_core/atlas.cpp: Python names for Atlas programs, for the text form of graphs and for what
// the processor offers.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "atlas/lane.h"
#include "backend/cpu/choices.h"
#include "backend/cpu/compiler.h"
#include "bindings.h"
#include "canon/canon.h"
#include "runtime/run_program.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

using Array = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::string_view view(const nb::bytes& b) { return {static_cast<const char*>(b.data()), b.size()}; }

// Text or binary form.
atlas::AnyProgram read(const nb::bytes& data) {
  std::string_view bytes = view(data);
  return atlas::is_binary(bytes) ? atlas::decode_any(bytes) : atlas::assemble_any(bytes);
}

nb::bytes assemble(const nb::bytes& data) {
  std::string out = std::visit([](const auto& p) { return atlas::encode(p); }, read(data));
  return nb::bytes(out.data(), out.size());
}

std::string disassemble(const nb::bytes& data) {
  return std::visit([](const auto& p) { return atlas::disassemble(p); }, read(data));
}

void verify(const nb::bytes& data) {
  std::visit([](const auto& p) { atlas::verify(p); }, read(data));
}

std::string_view name_of(atlas::Access a) {
  switch (a) {
    case atlas::Access::read:
      return "read";
    case atlas::Access::write:
      return "write";
    case atlas::Access::read_write:
      return "read_write";
    default:
      return "scratch";
  }
}

// Layer and, of a block program, symbols and buffers with their extents for these symbols (None
// where they are not given).
nb::dict describe(const nb::bytes& data, const std::vector<int64_t>& symbols) {
  atlas::AnyProgram any = read(data);
  nb::dict out;
  out["fingerprint"] = std::visit([](const auto& p) { return atlas::fingerprint(p).hex(); }, any);
  if (const auto* lanes = std::get_if<atlas::LaneProgram>(&any)) {
    out["layer"] = "lane";
    out["instructions"] = lanes->instrs.size();
    out["labels"] = lanes->labels.size();
    return out;
  }
  const auto& p = std::get<atlas::Program>(any);
  out["layer"] = "block";
  out["symbols"] = p.num_symbols;
  nb::list buffers;
  bool sized = symbols.size() == static_cast<size_t>(p.num_symbols);
  for (const atlas::Buffer& b : p.buffers) {
    nb::dict d;
    d["dtype"] = std::string(hologram::name_of(b.dtype));
    d["access"] = name_of(b.access);
    d["extent"] = b.extent.str();
    d["elements"] = sized ? nb::cast(b.extent.eval(symbols)) : nb::object(nb::none());
    buffers.append(d);
  }
  out["buffers"] = buffers;
  return out;
}

std::vector<runtime::Bytes> spans(const std::vector<Array>& arrays) {
  std::vector<runtime::Bytes> out;
  for (const Array& a : arrays) out.push_back({reinterpret_cast<std::byte*>(a.data()), a.size()});
  return out;
}

void run_block(const nb::bytes& data, const std::vector<Array>& buffers,
               const std::vector<int64_t>& symbols, std::shared_ptr<runtime::Runtime> runtime) {
  atlas::AnyProgram any = read(data);
  const auto* p = std::get_if<atlas::Program>(&any);
  require(p != nullptr, "run_block: a lane program");
  atlas::verify(*p);
  std::vector<runtime::Bytes> memory = spans(buffers);
  nb::gil_scoped_release release;
  runtime::run_program(*runtime, *p, memory, symbols);
}

// Runs a launch; returns the resonance of the 96 classes.
std::vector<double> run_lanes(const nb::bytes& data, const std::vector<Array>& buffers,
                              std::vector<Array> boundary, const std::vector<uint32_t>& grid,
                              const std::vector<uint32_t>& block, uint64_t shared, uint32_t phase,
                              uint64_t max_steps, std::shared_ptr<runtime::Runtime> runtime) {
  atlas::AnyProgram any = read(data);
  const auto* p = std::get_if<atlas::LaneProgram>(&any);
  require(p != nullptr, "run_lanes: a block program");
  require(grid.size() == 3 && block.size() == 3, "run_lanes: grid and block need three numbers");
  atlas::LaneLaunch launch;
  launch.grid = {grid[0], grid[1], grid[2]};
  launch.block = {block[0], block[1], block[2]};
  launch.shared_bytes = shared;
  launch.first_phase = phase;
  launch.max_steps = max_steps;
  atlas::LaneMemory memory;
  memory.buffers = spans(buffers);
  if (!boundary.empty()) memory.boundary = spans(boundary)[0];
  nb::gil_scoped_release release;
  runtime->kernels().get_lanes(*p)->run(launch, memory);
  return {memory.resonance.begin(), memory.resonance.end()};
}

nb::dict canonicalize(const ir::Graph& graph, bool reproducible, bool fast) {
  auto out = std::make_unique<ir::Graph>();
  canon::Report report;
  canon::canonicalize(graph, *out, report, {reproducible, fast});
  nb::dict d;
  d["original_ops"] = report.nodes_before;
  d["canonical_ops"] = report.nodes_after;
  nb::dict fired;
  for (const auto& [name, n] : report.fired) fired[name.c_str()] = n;
  d["rules"] = fired;
  d["text"] = ir::print(*out);
  d["fingerprint"] = ir::fingerprint(*out).hex();
  return d;
}

nb::dict host_cpu() {
  cpu::Target t = cpu::host_target();
  nb::dict out;
  out["isa"] = cpu::level_of(t);
  out["cpu"] = t.cpu;
  nb::list features;
  std::string_view rest = t.features;
  while (!rest.empty()) {
    std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (one.starts_with('+')) features.append(one.substr(1));
  }
  out["features"] = features;
  out["processor"] = t.processor->name;
  nb::dict choices;
  for (const cpu::Choice& c : cpu::choices(t)) {
    nb::dict choice;
    choice["path"] = c.path;
    choice["why"] = c.why;
    choices[nb::str(c.what.data(), c.what.size())] = choice;
  }
  out["choices"] = choices;
  return out;
}

nb::dict measure_limits(std::shared_ptr<runtime::Runtime> runtime, int rounds, bool memory_reads) {
  cpu::Limits limits;
  {
    nb::gil_scoped_release release;
    limits = cpu::compiler().measure_limits(cpu::host_target(), runtime->threads(), rounds,
                                            memory_reads);
  }
  nb::dict operations;
  operations["float32"] = limits.f32;
  operations["float64"] = limits.f64;
  if (limits.bf16 > 0) operations["bfloat16"] = limits.bf16;
  if (limits.i8 > 0) operations["int8"] = limits.i8;
  nb::list levels;
  for (const cpu::LevelLimits& l : limits.levels) {
    nb::dict level;
    level["name"] = l.name;
    level["bytes"] = l.bytes;
    level["read"] = l.read;
    level["write"] = l.write;
    level["copy"] = l.copy;
    levels.append(level);
  }
  nb::dict out;
  out["threads"] = limits.threads;
  out["operations"] = operations;
  out["levels"] = levels;
  return out;
}

}  // namespace

void bind_atlas(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("atlas", "Atlas programs: forms, verifier, execution.");
  m.def("assemble", &assemble, nb::arg("data"), "The binary form of a program in either form.");
  m.def("disassemble", &disassemble, nb::arg("data"), "The text form of a program in either form.");
  m.def("verify", &verify, nb::arg("data"), "Throws ValueError for a program that is not sound.");
  m.def("describe", &describe, nb::arg("data"), nb::arg("symbols") = std::vector<int64_t>());
  m.def("run_block", &run_block, nb::arg("data"), nb::arg("buffers"), nb::arg("symbols"),
        nb::arg("runtime"));
  m.def("run_lanes", &run_lanes, nb::arg("data"), nb::arg("buffers"), nb::arg("boundary"),
        nb::arg("grid"), nb::arg("block"), nb::arg("shared"), nb::arg("phase"),
        nb::arg("max_steps"), nb::arg("runtime"));
  parent.def(
      "parse_graph",
      [](std::string_view text) {
        auto g = std::make_unique<ir::Graph>();
        ir::parse(text, *g);
        ir::verify(*g);
        return g.release();
      },
      nb::rv_policy::take_ownership, nb::arg("text"), "A graph from its text form.");
  parent.def("canonicalize", &canonicalize, nb::arg("graph"), nb::arg("reproducible") = false,
             nb::arg("fast") = false);
  parent.def("host_cpu", &host_cpu,
             "Instruction set, features and design of this machine's processor, and by kind of "
             "product which "
             "instructions serve it (path) and why.");
  parent.def(
      "measure_limits", &measure_limits, nb::arg("runtime"), nb::arg("rounds"),
      nb::arg("memory_reads") = false,
      "Operations a second by type, and bytes a second by level of memory, of all threads of "
      "a runtime at once; the fastest of so many rounds. memory_reads: these alone.");
}

}  // namespace hologram::python
