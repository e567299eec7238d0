// backend/cuda/launches.cpp: which functions of a module a kernel's launch is, and their
// parameters.
#include "backend/cuda/launches.h"

#include "codegen/target.h"

namespace hologram::cuda {
namespace {

constexpr const char* kernel_symbol = codegen::kernel_symbol;

void tell_refused_map(const LoadedKernel& k, CuResult result, Log& log) {
  log.refused_maps.fetch_add(1, std::memory_order_relaxed);
  log.note(fmt::format(
      "cuda: the driver refuses a tensor map of kernel {}, whose {} runs in place of {}: {}",
      k.name, kernel_symbol, wide_symbol, k.device->driver.words_of(result)));
}

Launch launch_of(CuFunction function, std::string_view symbol, int64_t ctas, int threads,
                 std::vector<uint64_t> words) {
  return {function,
          symbol,
          static_cast<unsigned>(ctas),
          static_cast<unsigned>(threads),
          std::move(words),
          0,
          {}};
}

// `numbers`: where words have the points' number, and behind it what follows that.
void add_wide(std::vector<Launch>& launches, const LoadedKernel& k, const Grid& own,
              const std::vector<CuTensorMap>& maps, std::vector<uint64_t> words, size_t numbers) {
  const WideFacts& facts = *k.facts.wide;
  const WideGrid& grid = own.wide->grid();
  if (grid.pieces > 0) {
    words[numbers] = static_cast<uint64_t>(grid.pieces);
    const int64_t ctas = (grid.pieces + split_threads - 1) / split_threads;
    launches.push_back(launch_of(k.split, split_symbol, ctas, split_threads, words));
  }
  words[numbers] = static_cast<uint64_t>(grid.tiles * grid.parts);
  words[numbers + 1] = static_cast<uint64_t>(grid.parts);
  words[numbers + 2] = static_cast<uint64_t>(facts.part_bytes);
  if (!facts.marks) words[numbers + 3] += static_cast<uint64_t>(grid.workspace);
  launches.push_back(launch_of(k.wide, wide_symbol, grid.ctas, facts.threads, words));
  launches.back().shared_bytes = static_cast<unsigned>(facts.shared_bytes);
  launches.back().maps = maps;
  if (grid.parts > 1)
    launches.push_back(launch_of(k.merge, merge_symbol, own.total * facts.merges, merge_threads,
                                 std::move(words)));
  if (!facts.marks) return;
  words[numbers] = static_cast<uint64_t>(own.total);
  words[numbers + 1] = static_cast<uint64_t>(own.teams);
  words[numbers + 2] = WideFacts::mark_bytes;
  launches.push_back(
      launch_of(k.function, kernel_symbol, own.ctas, k.facts.threads, std::move(words)));
}

}  // namespace

void add_launches(std::vector<Launch>& launches, const LoadedKernel& k, const Grid& grid,
                  std::vector<uint64_t> words, uint64_t workspace, CuPointer faults, Log& log) {
  const size_t numbers = words.size();
  for (int64_t n : {grid.total, grid.teams, grid.team_bytes})
    words.push_back(static_cast<uint64_t>(n));
  words.push_back(workspace);
  words.push_back(faults);
  if (grid.wide) {
    CuResult result = cu_success;
    if (const auto maps = grid.wide->maps(
            k.device->driver, std::span(words).first(k.buffers.size()), workspace, result))
      return add_wide(launches, k, grid, *maps, std::move(words), numbers);
    if (result != cu_success) tell_refused_map(k, result, log);
  }
  launches.push_back(grid.thin
                         ? launch_of(k.thin, thin_symbol, grid.ctas, k.facts.thin->threads, words)
                         : launch_of(k.function, kernel_symbol, grid.ctas, k.facts.threads, words));
  if (!grid.parted) return;
  launches.push_back(
      grid.thin ? launch_of(k.thin_merge, thin_merge_symbol, grid.merging, merge_threads,
                            std::move(words))
                : launch_of(k.merge, merge_symbol, grid.merging, merge_threads, std::move(words)));
}

}  // namespace hologram::cuda
