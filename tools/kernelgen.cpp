// tools/kernelgen.cpp: compiles the operations of executors ahead of time, for every instruction
// set of the target processor
//
// usage: hologram_kernelgen FOLDER TABLE.cpp OBJECTS.txt ISA...
//        hologram_kernelgen --programs FOLDER OUT ISA...
//
// The first writes one object per distinct program and instruction set into FOLDER, their names
// into OBJECTS.txt (a response file for ar), and the table that src/builtin/kernels.h declares. The
// second writes the object of each program FOLDER/NAME.atlas (text form) as OUT/NAME.ISA.o, or what
// went wrong as OUT/NAME.ISA.error; tools/compare_kernels.py uses it. An ISA is named as in
// HOLOGRAM_CPU_ISA.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>

#include "atlas/program.h"
#include "backend/cpu/compile.h"
#include "backend/cpu/machine.h"
#include "builtin/programs.h"
#include "host/side_by_side.h"

namespace {

using namespace hologram;

struct Job {
  cpu::Target target;
  atlas::Program program;
  std::string key, symbol;
  std::string launch = {};
};

cpu::Target target_from_name(std::string_view name) {
  for (cpu::Isa isa :
       {cpu::Isa::sse42, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::neon, cpu::Isa::wasm})
    if (cpu::name_of(isa) == name) return cpu::generic_target(isa);
  if (name == "amx") return cpu::with_tiles(cpu::generic_target(cpu::Isa::avx512));
  fail(ErrorCode::invalid_argument, "{}: no instruction set of that name", name);
}

// The distinct programs of all operations as they are planned for this target.
std::map<std::string, atlas::Program> programs(const cpu::Target& target) {
  const cpu::CpuMachine machine(target);
  std::map<std::string, atlas::Program> found;
  for (const builtin::Definition& d : builtin::precompiled())
    for (const atlas::Program& p : builtin::programs_of(d, machine))
      found.emplace(atlas::fingerprint(p).hex(), p);
  return found;
}

void write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) fail(ErrorCode::io, "{}: cannot be written", path.string());
}

std::string table(const std::vector<Job>& jobs, std::span<const std::string> isas) {
  std::string text =
      "// made by tools/kernelgen.cpp: the kernels that come with the library\n"
      "#include \"builtin/kernels.h\"\n\n#include <algorithm>\n\n"
      "using hologram::atlas::Context;\n\nextern \"C\" {\n";
  for (const Job& j : jobs)
    text += fmt::format(
        "int32_t {}(const Context*, void* const*, const int64_t*, int64_t, int64_t);\n", j.symbol);
  text += "}\n\nnamespace hologram::builtin {\nnamespace {\n\n";
  for (const std::string& isa : isas) {
    text += fmt::format("constexpr BuiltinKernel {}_kernels[] = {{\n", isa);
    for (const Job& j : jobs)
      if (cpu::name_of(j.target.isa) == isa)
        text += fmt::format("    {{\"{}\", {}, \"{}\"}},\n", j.key, j.symbol, j.launch);
    text += "};\n";
  }
  text +=
      "\n}  // namespace\n\nstd::span<const BuiltinKernel> kernels([[maybe_unused]] "
      "std::string_view isa) "
      "{\n";
  for (const std::string& isa : isas)
    text += fmt::format("  if (isa == \"{0}\") return {0}_kernels;\n", isa);
  text +=
      "  return {};\n}\n\n"
      "const BuiltinKernel* find_kernel(std::string_view isa, const Fingerprint& program) {\n"
      "  const std::span<const BuiltinKernel> all = kernels(isa);\n"
      "  const std::string key = program.hex();\n"
      "  auto it = std::lower_bound(all.begin(), all.end(), key,\n"
      "                             [](const BuiltinKernel& k, const std::string& s) { return "
      "k.key < s; "
      "});\n"
      "  return it != all.end() && it->key == key ? &*it : nullptr;\n"
      "}\n\n}  // namespace hologram::builtin\n";
  return text;
}

void run(const std::filesystem::path& folder, const std::filesystem::path& table_path,
         const std::filesystem::path& list_path, std::span<const std::string> isas) {
  std::vector<Job> jobs;
  for (const std::string& isa : isas) {
    cpu::Target target = target_from_name(isa);
    for (auto& [key, program] : programs(target))
      jobs.push_back({target, std::move(program), key, fmt::format("builtin_{}_{}", isa, key)});
  }
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  host::side_by_side(jobs.size(), [&](size_t i) {
    Job& job = jobs[i];
    const cpu::Object object = cpu::compile(job.program, job.target, nullptr, job.symbol.c_str());
    write(folder / (job.symbol + ".o"), object.code);
    job.launch = cpu::str(object.launch);
  });
  std::string list;
  for (const Job& j : jobs) list += (folder / (j.symbol + ".o")).string() + "\n";
  write(list_path, list);
  write(table_path, table(jobs, isas));
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in) fail(ErrorCode::io, "{}: cannot be read", path.string());
  return text;
}

void compile_programs(const std::filesystem::path& folder, const std::filesystem::path& out,
                      std::span<const std::string> isas) {
  std::vector<std::pair<std::filesystem::path, std::string>> jobs;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".atlas")
      for (const std::string& isa : isas) jobs.emplace_back(entry.path(), isa);
  std::filesystem::create_directories(out);
  host::side_by_side(jobs.size(), [&](size_t i) {
    const auto& [path, isa] = jobs[i];
    std::filesystem::path object = out / fmt::format("{}.{}.o", path.stem().string(), isa);
    try {
      write(object, cpu::compile(atlas::assemble(read(path)), target_from_name(isa)).code);
    } catch (const Error& e) {
      write(object.replace_extension("error"), e.what());
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::cerr << "usage: hologram_kernelgen FOLDER TABLE.cpp OBJECTS.txt ISA...\n"
                 "       hologram_kernelgen --programs FOLDER OUT ISA...\n";
    return 2;
  }
  try {
    const std::vector<std::string> isas(argv + 4, argv + argc);
    if (std::string_view(argv[1]) == "--programs")
      compile_programs(argv[2], argv[3], isas);
    else
      run(argv[1], argv[2], argv[3], isas);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "hologram_kernelgen: " << e.what() << "\n";
    return 1;
  }
}
