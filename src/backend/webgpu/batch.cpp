// backend/webgpu/batch.cpp: grids, words and bindings of launches.
#include "backend/webgpu/batch.h"

#include <algorithm>

#include "backend/steps.h"
#include "backend/webgpu/addresses.h"
#include "base/error.h"

namespace hologram::webgpu {
namespace {

constexpr uint64_t alignment = binding_alignment;
constexpr int64_t most = int64_t{1} << 30;

uint64_t round_up(uint64_t x, uint64_t to) { return (x + to - 1) / to * to; }

void require_small(int64_t count, std::string_view what) {
  if (count > most)
    fail(ErrorCode::unsupported, "webgpu: {} {}; expected at most {}", count, what, most);
}

[[noreturn]] void too_wide(uint64_t bytes, const Bounds& bounds) {
  fail(ErrorCode::unsupported,
       "webgpu: a buffer of {} bytes; {} lets kernels see {} (maxStorageBufferBindingSize)", bytes,
       bounds.name, bounds.storage_binding);
}

// From where a binding begins that holds the address.
uint64_t behind_begin(const std::byte* address) {
  return reinterpret_cast<uintptr_t>(address) % alignment;
}

}  // namespace

Kernel::Takes RenderedKernel::takes() const {
  const auto given = std::ranges::count_if(
      buffers, [](const atlas::Buffer& b) { return b.access != atlas::Access::scratch; });
  return {static_cast<size_t>(given), num_symbols};
}

uint64_t spare_bytes(size_t most_buffers) { return alignment * (1 + most_buffers); }

uint64_t word_bytes(const RenderedKernel& k) {
  return round_up(4 * (k.num_symbols + k.buffers.size() + k.module.dispatches.size()), 16);
}

StepSizes sizes_of(const RenderedKernel& k, std::span<const int64_t> symbols,
                   const Bounds& bounds) {
  StepSizes out;
  for (const wgsl::Dispatch& d : k.module.dispatches) {
    out.units.push_back(d.units.eval(symbols));
    require_small(out.units.back(), "points of a kernel");
    if (const int64_t rounds = d.rounds.eval(symbols); rounds > bounds.most_rounds)
      fail(ErrorCode::unsupported,
           "webgpu: a kernel of {} rounds of loops; {} ends them all after {}", rounds, bounds.name,
           bounds.most_rounds);
  }
  const bool runs = std::ranges::any_of(out.units, [](int64_t u) { return u > 0; });
  for (size_t b = 0; b < k.buffers.size(); ++b) {
    const bool scratch = k.buffers[b].access == atlas::Access::scratch;
    const Expr& elements = scratch ? k.module.scratch[b] : k.buffers[b].extent;
    if (runs || scratch) require_small(elements.eval(symbols), "elements of a buffer");
    out.bytes.push_back(bytes_of(k.buffers[b], elements, symbols));
    if (out.bytes[b] > bounds.sure_bytes) too_wide(out.bytes[b], bounds);
    out.scratch.push_back(out.workspace.bytes);
    if (scratch) out.workspace.bytes += round_up(out.bytes[b], alignment);
  }
  return out;
}

size_t place_workspaces(std::span<StepSizes> steps) {
  static_assert(gpu::workspace_alignment % alignment == 0);
  std::vector<gpu::Workspace*> workspaces;
  for (StepSizes& s : steps) workspaces.push_back(&s.workspace);
  return gpu::place_workspaces(workspaces);
}

void Batch::add(const RenderedKernel& k, const CallFrame& frame, const atlas::EntryStep& step,
                const StepSizes& sizes) {
  words_.resize(round_up(words_.size(), alignment / 4));
  const uint64_t words = words_.size() * 4;
  for (int64_t a = 0; a < step.num_arguments; ++a)
    words_.push_back(static_cast<int32_t>(frame.arguments[step.first_argument + a]));
  std::vector<Binding> bindings;
  int64_t given = 0;
  for (size_t b = 0; b < k.buffers.size(); ++b) {
    const bool scratch = k.buffers[b].access == atlas::Access::scratch;
    const void* address =
        scratch ? static_cast<std::byte*>(frame.workspace) + sizes.workspace.at + sizes.scratch[b]
                : frame.buffers[step.first_buffer + given++];
    bindings.push_back(bind(k, b, static_cast<const std::byte*>(address), sizes.bytes[b]));
  }
  for (int64_t units : sizes.units) words_.push_back(static_cast<int32_t>(units));
  words_.resize(round_up(words_.size(), 4));
  for (size_t d = 0; d < k.module.dispatches.size(); ++d)
    if (sizes.units[d] > 0) add_dispatch(k, d, words, bindings, sizes.units[d]);
}

void Batch::clear() {
  words_.clear();
  dispatches_.clear();
}

// Of no elements, any memory will do that no other buffer of the launch has.
Binding Batch::bind(const RenderedKernel& k, size_t buffer, const std::byte* address,
                    uint64_t bytes) {
  if (bytes == 0) address = spare_ + alignment * (1 + buffer);
  const uint64_t skipped = behind_begin(address);
  const uint64_t whole = round_up(std::max<uint64_t>(skipped + bytes, 16), 4);
  if (whole > bounds_.storage_binding) too_wide(bytes, bounds_);
  words_.push_back(
      static_cast<int32_t>(skipped / static_cast<uint64_t>(size_of(k.buffers[buffer].dtype))));
  return {static_cast<int>(buffer), address - skipped, whole};
}

void Batch::add_dispatch(const RenderedKernel& k, size_t d, uint64_t words,
                         const std::vector<Binding>& buffers, int64_t units) {
  const wgsl::Dispatch& dispatch = k.module.dispatches[d];
  Dispatched out{&k, d, words, {}, 0, 0};
  for (int b : dispatch.buffers) out.bindings.push_back(buffers[static_cast<size_t>(b)]);
  if (dispatch.faults) out.bindings.push_back({static_cast<int>(k.buffers.size()), spare_, 4});
  const int64_t groups = dispatch.teams ? units : (units + dispatch.threads - 1) / dispatch.threads;
  const int64_t x = std::min(groups, wgsl::grid_row);
  out.x = static_cast<uint32_t>(x);
  out.y = static_cast<uint32_t>((groups + x - 1) / x);
  dispatches_.push_back(std::move(out));
}

}  // namespace hologram::webgpu
