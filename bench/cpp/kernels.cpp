// bench/cpp/kernels.cpp: what compiling kernels costs, for programs as HOLOGRAM_DUMP=atlas writes
// them.
//
// bench_kernels [--quick] FILE...: for each, milliseconds of IR, passes and object, instructions of
// the LLVM IR, those of its longest basic block, bytes of the object; the longest compile first.
// HOLOGRAM_CPU_ISA chooses the instruction set.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "backend/cpu/compile.h"
#include "base/error.h"

namespace {

using namespace hologram;

struct Row {
  std::string name;
  cpu::Timing timing;
  size_t bytes = 0;
  double total() const { return timing.emit + timing.passes + timing.translate; }
};

std::string read(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

int main(int count, char** files) {
  cpu::Target target = cpu::host_target();
  std::vector<Row> rows;
  cpu::Timing sum;
  const bool quick = count > 1 && std::string(files[1]) == "--quick";
  const auto effort = quick ? codegen::Effort::quick : codegen::Effort::full;
  for (int k = 1 + quick; k < count; ++k) try {
      Row row{files[k], {}, 0};
      const atlas::Program program = atlas::assemble(read(files[k]));
      row.bytes =
          cpu::compile(program, target, &row.timing, cpu::kernel_symbol, effort).code.size();
      sum.instructions += row.timing.instructions;
      sum.translate += row.total();
      rows.push_back(row);
    } catch (const Error& e) {
      std::fprintf(stderr, "%s: %s\n", files[k], e.what());
    }
  std::ranges::sort(rows, std::ranges::greater{}, &Row::total);
  std::printf("      emit    passes    object  instructions   longest    bytes\n");
  for (const Row& r : rows)
    std::printf("%7.1f ms %6.1f ms %6.1f ms %13ld %9ld %8zu  %s\n", r.timing.emit, r.timing.passes,
                r.timing.translate, static_cast<long>(r.timing.instructions),
                static_cast<long>(r.timing.longest), r.bytes, r.name.c_str());
  std::printf("%zu kernels, %.0f ms, %ld instructions\n", rows.size(), sum.translate,
              static_cast<long>(sum.instructions));
  return 0;
}
