// rt/wasm/exports.cpp: the functions that js/hologram.js calls, for one archive in an instance.
//
// The bytes of a file are written where hologram_reserve() says; hologram_open() checks them. A
// call is hologram_begin() with the shapes of its inputs, writing those where hologram_input()
// says, hologram_run(), hologram_finish(), and reading the results. Functions return 0 or an
// ErrorCode; hologram_message() is then what went wrong. Text is UTF-8 and ends with a zero.
//
// After hologram_use_gpu() methods run on the host language's WebGPU: it waits for the pipelines
// that were asked for before hologram_run(), and for the bytes behind it (gpu.h).
#include <algorithm>
#include <cstdlib>
#include <map>
#include <new>

#include "archive/describe.h"
#include "archive/faults.h"
#include "archive/function.h"
#include "backend/webgpu/stored.h"
#include "base/error.h"
#include "rt/wasm/gpu.h"
#include "runtime/stored_plan.h"

namespace {

using namespace hologram;

#define HOLOGRAM_EXPORT(name) extern "C" __attribute__((export_name(#name)))

struct Block {
  void* data = nullptr;
  size_t bytes = 0;

  /// Room for an array; content undefined.
  void resize(__int128 wanted) {
    const size_t needed = host::addressable(wanted);
    if (needed <= bytes && data) return;
    host::MemoryPool::deallocate(std::exchange(data, nullptr));
    data = host::MemoryPool().allocate(needed);
    bytes = needed;
  }
};

/// A method that was called, and its last call.
struct Called {
  std::unique_ptr<archive::Function> function;
  std::vector<Block> inputs, results;
  std::vector<std::vector<int64_t>> shapes;  // of results
  std::vector<int64_t> symbols;
  bool begun = false, ended_well = false;
  int32_t faults = 0;
};

struct State {
  std::string file, text, message;
  std::shared_ptr<const archive::Archive> archive;
  std::shared_ptr<archive::Weights> weights;
  std::shared_ptr<runtime::Runtime> runtime;
  bool on_gpu = false;
  std::map<const archive::Method*, Called> called;
  std::unique_ptr<archive::Session> session;
  Called* now = nullptr;
};

State& state() {
  static auto* const s = new State;
  return *s;
}

template <class F>
int32_t guarded(const F& work) {
  try {
    work();
    return 0;
  } catch (const Error& e) {
    state().message = e.what();
    return static_cast<int32_t>(e.code());
  } catch (const std::bad_alloc&) {
    state().message = "the memory of WebAssembly is exhausted";
    return static_cast<int32_t>(ErrorCode::out_of_memory);
  } catch (const std::exception& e) {
    state().message = e.what();
    return static_cast<int32_t>(ErrorCode::internal);
  }
}

const std::shared_ptr<const archive::Archive>& opened() {
  require(state().archive != nullptr, "no archive is open");
  return state().archive;
}

Called& begun() {
  require(state().now && state().now->begun, "no call has begun");
  return *state().now;
}

Called& function_of(const archive::Method& method) {
  State& s = state();
  Called& c = s.called[&method];
  if (!c.function)
    c.function = std::make_unique<archive::Function>(s.weights, method, s.runtime, true);
  return c;
}

// The first reason that a method's code gives for leaving a kernel to the host; empty: none does.
std::string left_to_host(const archive::Precompiled& p) {
  const std::string code = opened()->checked_section(p.code);
  const std::string_view line(code.data(), std::min(code.find('\n'), code.size()));
  constexpr std::string_view list = "\"host\":{\"", between = "\":\"";
  const size_t at = line.find(list);
  if (at == line.npos) return {};
  const size_t begin = line.find(between, at + list.size());
  if (begin == line.npos)
    fail(ErrorCode::corrupt, "stored WGSL: a kernel of the host without a reason");
  const std::string_view words = line.substr(begin + between.size());
  return fmt::format("method \"{}\" has a kernel of the host: {}",
                     opened()->index().methods[p.method].name, words.substr(0, words.find('"')));
}

// What runs methods from now on.
void use(std::shared_ptr<runtime::Runtime> runtime, bool gpu) {
  State& s = state();
  s.now = nullptr;
  s.called.clear();
  s.session = nullptr;
  s.runtime = std::move(runtime);
  s.on_gpu = gpu;
}

void resize_for(Block& block, DType dtype, const std::vector<int64_t>& shape) {
  __int128 bytes = size_of(dtype);
  for (const int64_t n : shape) {
    require(n >= 0, "a size is negative");
    bytes *= n;
    if (bytes > SIZE_MAX) break;
  }
  block.resize(bytes);
}

}  // namespace

HOLOGRAM_EXPORT(hologram_message) const char* hologram_message() { return state().message.c_str(); }

/// Room for a file of so many bytes; null where there is none.
HOLOGRAM_EXPORT(hologram_reserve) char* hologram_reserve(uint32_t bytes) {
  const int32_t status = guarded([&] {
    State& s = state();
    require(!s.archive, "an archive is open already");
    s.file.resize(bytes);
  });
  return status == 0 ? state().file.data() : nullptr;
}

/// `full`: whether everything is compared with its checksums.
HOLOGRAM_EXPORT(hologram_open) int32_t hologram_open(int32_t full) {
  return guarded([&] {
    State& s = state();
    require(!s.archive, "an archive is open already");
    s.archive = archive::Archive::from_bytes(std::move(s.file),
                                             full ? archive::Verify::full : archive::Verify::index);
    s.weights = std::make_shared<archive::Weights>(s.archive);
    s.runtime = std::make_shared<runtime::Runtime>("cpu");
    s.text = archive::describe(*s.archive);
  });
}

/// Has methods run here.
HOLOGRAM_EXPORT(hologram_leave_gpu) void hologram_leave_gpu() {
  use(std::make_shared<runtime::Runtime>("cpu"), false);
}

/// What the archive holds, as JSON.
HOLOGRAM_EXPORT(hologram_describe) const char* hologram_describe() { return state().text.c_str(); }

/// Has all methods run on the host language's device from now on, whose kernels it begins to make:
/// its name, limits as WebGPU names them, and the rounds of loops that it runs. Otherwise they run
/// here.
HOLOGRAM_EXPORT(hologram_use_gpu)
int32_t hologram_use_gpu(const char* name, double most_rounds, double storage_binding,
                         double buffer_bytes, double storage_buffers) {
  const int32_t status = guarded([&] {
    wasm::Gpu gpu;
    gpu.name = name;
    gpu.most_rounds = static_cast<int64_t>(most_rounds);
    gpu.storage_binding = static_cast<uint64_t>(storage_binding);
    gpu.buffer_bytes = static_cast<uint64_t>(buffer_bytes);
    gpu.storage_buffers = static_cast<uint32_t>(storage_buffers);
    const archive::Index& index = opened()->index();
    if (!index.loops.empty())
      fail(ErrorCode::unsupported, "a recurrent layer is a loop of the host");
    for (const archive::Precompiled& p : index.precompiled)
      if (p.target == webgpu::stored_target && p.abi == runtime::stored_abi)
        if (const std::string words = left_to_host(p); !words.empty())
          fail(ErrorCode::unsupported, "{}", words);
    use(std::make_shared<runtime::Runtime>(wasm::make_gpu_backend(std::move(gpu))), true);
    for (const archive::Method& method : index.methods) function_of(method);
  });
  if (status != 0) hologram_leave_gpu();
  return status;
}

/// State as it is in the file, for calls from now on.
HOLOGRAM_EXPORT(hologram_reset) int32_t hologram_reset() {
  return guarded([&] {
    opened();
    if (state().session) state().session->reset();
  });
}

/// Begins a call of a method. `shapes`: of each input the number of its sizes, then these.
HOLOGRAM_EXPORT(hologram_begin) int32_t hologram_begin(const char* name, const int64_t* shapes) {
  return guarded([&] {
    State& s = state();
    s.now = nullptr;
    const archive::Method& method = opened()->method(name);
    Called& c = function_of(method);
    c.begun = false;
    std::vector<std::vector<int64_t>> given;
    for (size_t i = 0; i < method.inputs.size(); ++i) {
      const int64_t rank = *shapes++;
      given.emplace_back(shapes, shapes + rank);
      shapes += rank;
    }
    c.symbols = c.function->symbols_of(given);
    c.inputs.resize(given.size());
    for (size_t i = 0; i < given.size(); ++i)
      resize_for(c.inputs[i], method.inputs[i].dtype, given[i]);
    c.results.resize(method.results.size());
    c.shapes.clear();
    for (size_t r = 0; r < method.results.size(); ++r) {
      c.shapes.push_back(c.function->shape_of(method.results[r], c.symbols));
      resize_for(c.results[r], method.results[r].dtype, c.shapes[r]);
    }
    c.begun = true;
    s.now = &c;
  });
}

/// Where an input of the call that has begun is to be written, row-major; null where there is none.
HOLOGRAM_EXPORT(hologram_input) void* hologram_input(uint32_t number) {
  const Called* c = state().now;
  return c && number < c->inputs.size() ? c->inputs[number].data : nullptr;
}

HOLOGRAM_EXPORT(hologram_run) int32_t hologram_run() {
  const int32_t status = guarded([&] {
    State& s = state();
    Called& c = begun();
    if (c.function->has_state() && !s.session)
      s.session = std::make_unique<archive::Session>(s.archive);
    std::vector<const void*> inputs;
    std::vector<void*> results;
    for (const Block& b : c.inputs) inputs.push_back(b.data);
    for (const Block& b : c.results) results.push_back(b.data);
    wasm::take_gpu_faults();  // of a call that failed on its way
    wasm::set_gpu_reads(true);
    c.faults = c.function->run(inputs, c.symbols, results,
                               c.function->has_state() ? s.session.get() : nullptr);
  });
  wasm::set_gpu_reads(false);
  return status;
}

/// When the call that ran last, and what it read, is through: raises its faults.
HOLOGRAM_EXPORT(hologram_finish) int32_t hologram_finish() {
  return guarded([&] {
    Called& c = begun();
    const int32_t faults = c.faults | wasm::take_gpu_faults();
    std::vector<const void*> inputs;
    for (const Block& b : c.inputs) inputs.push_back(b.data);
    const archive::Method& method = c.function->method();
    // What the first call of all computed to be kept is not kept.
    if (faults != 0 && state().on_gpu && !c.ended_well) c.function = nullptr;
    c.ended_well = c.ended_well || faults == 0;
    archive::raise_faults(faults, method, inputs, c.symbols);
  });
}

HOLOGRAM_EXPORT(hologram_result) const void* hologram_result(uint32_t number) {
  const Called* c = state().now;
  return c && number < c->results.size() ? c->results[number].data : nullptr;
}

/// The sizes of a result.
HOLOGRAM_EXPORT(hologram_result_shape) const int64_t* hologram_result_shape(uint32_t number) {
  const Called* c = state().now;
  return c && number < c->shapes.size() ? c->shapes[number].data() : nullptr;
}

/// Memory for the host language: what it passes, and what the kernels' constants take.
HOLOGRAM_EXPORT(hologram_allocate) void* hologram_allocate(uint32_t bytes) {
  return std::aligned_alloc(64, (std::max(size_t{bytes}, size_t{1}) + 63) / 64 * 64);
}
HOLOGRAM_EXPORT(hologram_free) void hologram_free(void* memory) { std::free(memory); }
