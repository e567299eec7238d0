// tests/conformance/support.h: programs on a backend, and what a backend may leave out.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "atlas/program.h"
#include "runtime/runtime.h"

namespace hologram::test {

using Buffers = std::vector<std::vector<std::byte>>;

/// The backends of the build but webgpu, and "cpu_tiles": cpu for a machine with AMX tiles, whose
/// instructions are emulated where this one has none, and which takes float32 products by terms as
/// its model says. HOLOGRAM_TEST_BACKENDS names some of them, and webgpu, with commas.
const std::vector<std::string>& tried_backends();
/// These, "cpu_quickly", cpu by kernels that are made quickly, and webgpu where there is an adapter:
/// its drivers take a tenth of a second for a kernel.
const std::vector<std::string>& corpus_backends();

/// Memory for what a program is given, filled as tests/support/differential.h fills it.
Buffers data_for(const atlas::Program& program, const std::vector<int64_t>& symbols, int specials, uint64_t seed = 7);

/// A runtime on this backend, shared by the tests of the process.
const std::shared_ptr<runtime::Runtime>& runtime_of(std::string_view backend);

/// What is in the buffers after the program has run on them; `error` gets what it threw.
Buffers run_on(runtime::Runtime& runtime, const atlas::Program& program, const std::vector<int64_t>& symbols, Buffers buffers,
               std::string& error);

/// The data to try a backend with, and how close its results must be to the interpreter's.
struct Promise {
  int specials;      ///< of 16 values
  double tolerance;  ///< as Inputs::tolerance
};
/// `specials` where every bit is promised.
Promise promise_on(std::string_view backend, const atlas::Program& program, int specials);

/// Whether the backend may leave out a program of the corpus, or the programs of a test ("Loop.Scan").
bool excused(std::string_view backend, const std::string& name);

}  // namespace hologram::test
