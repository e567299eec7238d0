// backend/cuda/maps.cpp: tensor maps, as the driver encodes them.
#include "backend/cuda/maps.h"

#include <algorithm>

namespace hologram::cuda {
namespace {

constexpr int64_t most_size = int64_t{1} << 30;               // coordinates are of 32 bits
constexpr int64_t most_stride = int64_t{1} << 40, unit = 16;  // in bytes
// Of k, steps of 128 bytes: of fewer, filling the slots takes longer than the products.
constexpr int64_t least_depth_bytes = 256;
// What factors that are computed first have to be for: so many products for each of their elements
// take as long as computing them, or longer. Of three terms a product is six.
constexpr int64_t least_products = 512, least_six_products = 256;
// Of attention, queries and keys.
constexpr int64_t least_split_rows = 256;
constexpr int64_t tile_elements = 128 * 256, term_tile_elements = 128 * 128;
constexpr int64_t piece = 8;                            // elements
constexpr int64_t most_plane_bytes = int64_t{1} << 30;  // of a launch's workspace

std::optional<WideGrid::Matrix> matrix_of(const MappedMatrix& m, std::span<const int64_t> symbols) {
  WideGrid::Matrix out{&m, 0, {}, {}};
  const int64_t bytes = size_of(m.type);
  out.offset = m.first.eval(symbols) * bytes;
  bool legal = out.offset >= 0 && out.offset % unit == 0;
  for (const Expr& e : m.sizes) {
    const int64_t size = e.eval(symbols);
    legal = legal && size >= 1 && size <= most_size;
    out.sizes.push_back(static_cast<uint64_t>(size));
  }
  for (const Expr& e : m.strides) {
    const int64_t stride = e.eval(symbols);
    legal = legal && stride >= 1 && stride < most_stride / bytes && stride * bytes % unit == 0;
    out.strides.push_back(static_cast<uint64_t>(stride) * static_cast<uint64_t>(bytes));
  }
  if (!legal) return std::nullopt;
  return out;
}

std::optional<WideGrid> with_matrices(WideGrid grid, const WideFacts& facts,
                                      std::span<const int64_t> symbols) {
  for (const MappedMatrix& m : facts.matrices) {
    auto matrix = matrix_of(m, symbols);
    if (!matrix) return std::nullopt;
    grid.matrices.push_back(std::move(*matrix));
  }
  return grid;
}

// The matrix's address, if a tensor map may have it.
std::optional<uint64_t> address_of(const WideGrid::Matrix& m, std::span<const uint64_t> buffers,
                                   uint64_t workspace) {
  const int buffer = m.facts->buffer;
  const uint64_t address =
      (buffer == in_workspace ? workspace : buffers[static_cast<size_t>(buffer)]) +
      static_cast<uint64_t>(m.offset);
  if (address % unit != 0) return std::nullopt;
  return address;
}

void* as_pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

CuResult encode(const Driver& driver, const WideGrid::Matrix& m, uint64_t address,
                CuTensorMap& map) {
  const auto rank = static_cast<unsigned>(m.sizes.size());
  std::vector<unsigned> box, steps(rank, 1);
  for (const int n : m.facts->box) box.push_back(static_cast<unsigned>(n));
  const DType type = m.facts->type;
  const int kind = type == DType::bf16  ? cu_map_bfloat16
                   : type == DType::f16 ? cu_map_float16
                   : type == DType::f32 ? cu_map_float32
                                        : cu_map_byte;
  const bool half = m.facts->box[0] * size_of(type) == 64;
  const int swizzle = half ? cu_map_swizzle_64 : cu_map_swizzle_128;
  return driver.encode_map(&map, kind, rank, as_pointer(address), m.sizes.data(), m.strides.data(),
                           box.data(), steps.data(), 0, swizzle, cu_map_promotion_256, 0);
}

// Adds a factor's planes to what is computed first; false where they are not of such sizes.
bool add_planes_of(const MappedMatrix& m, std::span<const int64_t> symbols, WideGrid& grid) {
  if (m.buffer != in_workspace) return true;
  const int64_t numbers = m.strides.back().eval(symbols), planes = m.sizes.back().eval(symbols);
  const int64_t bytes = planes * size_of(m.type);  // of a number
  if (numbers < piece || planes < 1 || numbers > most_plane_bytes / bytes) return false;
  grid.pieces += numbers / piece;
  grid.workspace += static_cast<size_t>(numbers * bytes);
  return grid.workspace <= static_cast<size_t>(most_plane_bytes);
}

}  // namespace

// A part of a tile of 128 x 256 on every other multiprocessor at least, or of one of 128 x 128 by
// terms on two of five: the other kernel's tiles are smaller.
int64_t wide_parts(int64_t tiles, int64_t depth, int bytes, bool may, int multiprocessors) {
  if (tiles < 1 || tiles > most_size || depth * bytes < least_depth_bytes) return 0;
  int64_t parts = 1;
  if (may)
    parts = std::clamp<int64_t>(std::min(multiprocessors / tiles, depth / least_part(bytes)), 1,
                                most_parts);
  return (bytes == 4 ? 5 : 4) * tiles * parts < 2 * multiprocessors ? 0 : parts;
}

std::optional<WideGrid> wide_grid(const WideFacts& facts, std::span<const int64_t> symbols,
                                  int multiprocessors, bool anyway) {
  WideGrid grid;
  grid.tiles = facts.tiles.eval(symbols);
  if (facts.work != WideFacts::Work::product) {
    if (grid.tiles < 1 || grid.tiles > most_size) return std::nullopt;
    if (facts.marks) {
      for (const MappedMatrix& m : facts.matrices)  // queries, keys and values are rows here
        if (!anyway && m.sizes[1].eval(symbols) < least_split_rows) return std::nullopt;
      grid.marks = true;
      grid.workspace = WideFacts::mark_bytes;
      for (const MappedMatrix& m : facts.matrices)
        if (!add_planes_of(m, symbols, grid)) return std::nullopt;
    }
    grid.ctas = facts.work == WideFacts::Work::uneven_attention
                    ? grid.tiles
                    : std::min<int64_t>(grid.tiles, multiprocessors);
    return with_matrices(std::move(grid), facts, symbols);
  }
  const MappedMatrix& left = facts.matrices[0];
  const bool terms = left.type == DType::f32;
  const int64_t depth = facts.depth.eval(symbols);
  grid.parts = wide_parts(grid.tiles, depth, size_of(left.type), facts.merges > 0, multiprocessors);
  if (grid.parts == 0 && (!anyway || grid.tiles < 1 || depth < 1)) return std::nullopt;
  grid.parts = std::max<int64_t>(grid.parts, 1);
  grid.ctas = std::min<int64_t>(grid.tiles * grid.parts, multiprocessors);
  const bool six = terms && facts.matrices[1].sizes.back().is(3);
  const int64_t share = (terms ? term_tile_elements : tile_elements) /
                        (piece * (six ? least_six_products : least_products));
  for (const MappedMatrix& m : facts.matrices)
    if (!add_planes_of(m, symbols, grid)) return std::nullopt;
  if (!anyway && grid.tiles * share * depth < grid.pieces) return std::nullopt;
  return with_matrices(std::move(grid), facts, symbols);
}

std::optional<std::vector<CuTensorMap>> make_maps(const Driver& driver, const WideGrid& grid,
                                                  std::span<const uint64_t> buffers,
                                                  uint64_t workspace, CuResult& result) {
  result = cu_success;
  std::vector<CuTensorMap> maps(grid.matrices.size());
  for (size_t n = 0; n < maps.size(); ++n) {
    const auto address = address_of(grid.matrices[n], buffers, workspace);
    if (!address) return std::nullopt;
    result = encode(driver, grid.matrices[n], *address, maps[n]);
    if (result != cu_success) return std::nullopt;
  }
  return maps;
}

bool move_maps(const Driver& driver, const WideGrid& grid, std::span<const uint64_t> buffers,
               uint64_t workspace, std::vector<CuTensorMap>& maps, CuResult& result) {
  result = cu_success;
  for (size_t n = 0; n < maps.size(); ++n) {
    const auto address = address_of(grid.matrices[n], buffers, workspace);
    if (!address) return false;
    result = driver.move_map(&maps[n], as_pointer(*address));
    if (result != cu_success) return false;
  }
  return true;
}

}  // namespace hologram::cuda
