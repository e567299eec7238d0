// tools/gpukernelgen.cpp: compiles the operations of executors ahead of time, for GPUs
//
// usage: hologram_gpukernelgen TABLE.cpp [PTXAS]
//
// Writes the table that backend/cuda/builtin.h declares: PTX of each distinct program and, by
// PTXAS, machine code for the capabilities that most GPUs of today have, but for large kernels,
// products among them: they are a third of its bytes, and a wheel has a limit. A PTXAS that does
// not run, or that refuses a kernel, is left out with a line on standard error.
#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "backend/cuda/assembler.h"
#include "backend/cuda/builtin.h"
#include "backend/cuda/compile.h"
#include "backend/cuda/machine.h"
#include "builtin/programs.h"

namespace {

using namespace hologram;

constexpr size_t most_cubin = size_t{32} << 10;  // bytes

// The distinct programs of all operations that are rendered, as they are planned for GPUs.
std::map<std::string, atlas::Program> programs() {
  const cuda::CudaMachine machine;
  std::map<std::string, atlas::Program> found;
  for (const builtin::Definition& d : builtin::precompiled())
    for (const atlas::Program& p : builtin::programs_of(d, machine))
      if (!cuda::unrendered(p)) found.emplace(atlas::fingerprint(p).hex(), p);
  return found;
}

// Bytes as a string literal, in pieces that every compiler takes.
std::string literal(std::string_view bytes) {
  std::string out = "\"";
  size_t column = 0;
  for (const char c : bytes) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '\n')
      out += "\\n";
    else if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (u >= 32 && u < 127 && c != '?')
      out += c;
    else
      out += fmt::format("\\{:03o}", u);
    if (++column % 100 == 0) out += "\"\n    \"";
  }
  return out + "\"";
}

// What a row of the table is made of.
struct Row {
  std::string key, stored, cubins[std::size(cuda::builtin_capabilities)];
};

Row row(const std::string& key, const atlas::Program& program,
        const std::optional<cuda::Assembler>& assembler) {
  const cuda::Stored stored = cuda::compile(program);
  Row out{key, cuda::to_text(stored), {}};
  for (size_t c = 0; c < std::size(out.cubins); ++c) {
    if (!assembler) continue;
    auto made = cuda::assemble(*assembler, stored.code, cuda::builtin_capabilities[c]);
    if (made.cubin.empty())
      std::cerr << fmt::format("hologram_gpukernelgen: {}: {}\n", key, made.words);
    if (made.cubin.size() <= most_cubin) out.cubins[c] = std::move(made.cubin);
  }
  return out;
}

std::string packed(const std::vector<Row>& rows) {
  std::vector<cuda::BuiltinKernel> kernels;
  for (const Row& r : rows) {
    kernels.push_back({r.key, r.stored, {}});
    std::ranges::copy(r.cubins, kernels.back().cubins);
  }
  return cuda::pack(kernels);
}

void run(const char* table, const char* ptxas) {
  std::optional<cuda::Assembler> assembler;
  if (ptxas) assembler = cuda::ask_assembler(ptxas);
  if (ptxas && !assembler) std::cerr << "hologram_gpukernelgen: " << ptxas << " does not run\n";
  const std::map<std::string, atlas::Program> all = programs();
  const std::vector<std::pair<std::string, atlas::Program>> jobs(all.begin(), all.end());
  std::vector<Row> rows(jobs.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  auto loop = [&] {
    for (size_t k; (k = next++) < jobs.size();) try {
        rows[k] = row(jobs[k].first, jobs[k].second, assembler);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
  };
  std::vector<std::jthread> threads;
  for (unsigned t = 1; t < std::thread::hardware_concurrency(); ++t) threads.emplace_back(loop);
  loop();
  threads.clear();
  if (error) std::rethrow_exception(error);
  std::ofstream out(table, std::ios::binary);
  out << "// made by tools/gpukernelgen.cpp: the GPU kernels that come with the library\n"
         "#include \"backend/cuda/builtin.h\"\n\nnamespace hologram::cuda {\n\n"
         "std::string_view packed_kernels() {\n";
  const std::string bytes = packed(rows);
  out << fmt::format("  static constexpr char all[] =\n    {};\n", literal(bytes))
      << fmt::format("  return {{all, {}}};\n}}\n\n}}  // namespace hologram::cuda\n",
                     bytes.size());
  if (!out.flush()) fail(ErrorCode::io, "{}: cannot be written", table);
}

}  // namespace

// Of the generator itself: it has none.
namespace hologram::cuda {
std::string_view packed_kernels() { return {}; }
}  // namespace hologram::cuda

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: hologram_gpukernelgen TABLE.cpp [PTXAS]\n";
    return 2;
  }
  try {
    run(argv[1], argc == 3 && *argv[2] ? argv[2] : nullptr);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "hologram_gpukernelgen: " << e.what() << "\n";
    return 1;
  }
}
