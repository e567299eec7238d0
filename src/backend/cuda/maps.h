// backend/cuda/maps.h: whether a launch's matrices suit tensor maps, and the maps.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backend/cuda/driver.h"
#include "backend/cuda/facts.h"

namespace hologram::cuda {

/// A wide kernel's launch for some sizes.
struct WideGrid {
  struct Matrix {
    const MappedMatrix* facts;
    int64_t offset;                        ///< of the first element, in bytes
    std::vector<uint64_t> sizes, strides;  ///< in elements, in bytes
  };
  int64_t tiles = 0, ctas = 0;
  int64_t parts = 1;     ///< of k, each a tile's work for a CTA
  bool marks = false;    ///< as in the facts
  int64_t pieces = 0;    ///< of eight numbers, which are computed first
  size_t workspace = 0;  ///< for their planes, in bytes
  std::vector<Matrix> matrices;
};

/// Into how many parts of k a product by warpgroups, of elements of so many bytes, is cut if it
/// `may` be; 0: its parts or steps are so few that the module's other kernel is expected to be
/// faster on so many multiprocessors.
int64_t wide_parts(int64_t tiles, int64_t depth, int bytes, bool may, int multiprocessors);

/// What the kernel's launch for these sizes is, if it is expected to be faster than the other one
/// on so many multiprocessors (or `anyway`) and tensor maps can describe its matrices.
std::optional<WideGrid> wide_grid(const WideFacts& facts, std::span<const int64_t> symbols,
                                  int multiprocessors, bool anyway = false);

/// The maps of a launch's matrices in these buffers and this workspace. Nothing where an address is
/// not a multiple of 16, or where the driver refuses, which `result` then says.
std::optional<std::vector<CuTensorMap>> make_maps(const Driver& driver, const WideGrid& grid,
                                                  std::span<const uint64_t> buffers,
                                                  uint64_t workspace, CuResult& result);
/// Makes maps of the same grid for other buffers; false as above.
bool move_maps(const Driver& driver, const WideGrid& grid, std::span<const uint64_t> buffers,
               uint64_t workspace, std::vector<CuTensorMap>& maps, CuResult& result);

}  // namespace hologram::cuda
