// emulator/matrices.cpp: mma.sync.
#include <bit>

#include "emulator/state.h"
#include "emulator/values.h"

namespace ptx {

// mma.m16n8k32 of bytes: sums wrap around.
void Machine::State::multiply_bytes(Warp& w, const Instr& i, uint32_t on) {
  const size_t types = i.mods.size();
  if (types < 9 || !i.has("row") || !i.has("col") || i.mods[types - 1] != "s32" ||
      i.groups != std::vector<int>{4, 4, 2, 4})
    fault("a product of bytes that this machine does not know", w, 0);
  for (size_t n = 4; n < i.operands.size(); ++n)
    if (i.operands[n].reg >= 0) read_check(w, i.operands[n].reg, on);
  auto byte = [&](size_t operand, int lane, int which, const std::string& type) -> int32_t {
    const auto b = static_cast<uint8_t>(value(w, i.operands[operand], lane) >> (8 * which));
    if (type != "s8" && type != "u8") fault("bytes of another type", w, 0);
    return type == "s8" ? static_cast<int8_t>(b) : b;
  };
  // Element (row, k) of A is in lane 4 (row % 8) + k % 16 / 4, register row / 8 + 2 (k / 16).
  uint32_t out[16][8];
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      const int lane = row % 8 * 4 + column / 2;
      const auto number = static_cast<size_t>(row / 8 * 2 + column % 2);
      auto sum = static_cast<uint32_t>(value(w, i.operands[10 + number], lane));
      for (int k = 0; k < 32; ++k) {
        const int32_t x = byte(4 + static_cast<size_t>(row / 8 + k / 16 * 2),
                               row % 8 * 4 + k % 16 / 4, k % 4, i.mods[types - 3]);
        const int32_t y = byte(8 + static_cast<size_t>(k / 16), column * 4 + k % 16 / 4, k % 4,
                               i.mods[types - 2]);
        sum += static_cast<uint32_t>(x * y);
      }
      out[row][column] = sum;
    }
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column)
      set(w, i.operands[static_cast<size_t>(row / 8 * 2 + column % 2)], row % 8 * 4 + column / 2,
          out[row][column]);
  for (size_t n = 0; n < 4; ++n) wrote(w, i.operands[n].reg, on);
}

// mma.m16n8k16 of 16-bit floats: D = A * B + C.
void Machine::State::multiply(Warp& w, const Instr& i, uint32_t on) {
  whole_warp(w, on);
  if (i.has("m16n8k32")) return multiply_bytes(w, i, on);
  const bool bf16 = i.has("bf16");
  if (!i.has("m16n8k16") || !i.has("row") || !i.has("col") || i.type.bits != 32 ||
      i.groups != std::vector<int>{4, 4, 2, 4} || !(bf16 || i.has("f16")))
    fault("a product of matrices that this machine does not know", w, 0);
  for (size_t n = 4; n < i.operands.size(); ++n)
    if (i.operands[n].reg >= 0) read_check(w, i.operands[n].reg, on);
  auto half = [&](size_t operand, int lane, int which) {
    const uint64_t word = value(w, i.operands[operand], lane);
    return number_of(static_cast<uint16_t>(word >> (16 * which)), bf16);
  };
  // Element (row, k) of A is in lane 4 (row % 8) + k % 8 / 2, register row / 8 + 2 (k / 8).
  auto a = [&](int row, int k) {
    return half(4 + static_cast<size_t>(row / 8 + k / 8 * 2), row % 8 * 4 + k % 8 / 2, k % 2);
  };
  auto b = [&](int k, int column) {
    return half(8 + static_cast<size_t>(k / 8), column * 4 + k % 8 / 2, k % 2);
  };
  double left[16][16], right[8][16];
  for (int k = 0; k < 16; ++k) {
    for (int row = 0; row < 16; ++row) left[row][k] = a(row, k);
    for (int column = 0; column < 8; ++column) right[column][k] = b(k, column);
  }
  float out[16][8];
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      double products[16];
      for (int k = 0; k < 16; ++k) products[k] = left[row][k] * right[column][k];
      const int lane = row % 8 * 4 + column / 2;
      const auto number = static_cast<size_t>(row / 8 * 2 + column % 2);
      const auto bits = static_cast<uint32_t>(value(w, i.operands[10 + number], lane));
      out[row][column] = tensor_sum(products, 16, std::bit_cast<float>(bits));
    }
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      const float x = out[row][column];
      const auto number = static_cast<size_t>(row / 8 * 2 + column % 2);
      set(w, i.operands[number], row % 8 * 4 + column / 2,
          x != x ? 0x7fffffffu : std::bit_cast<uint32_t>(x));
    }
  for (size_t n = 0; n < 4; ++n) wrote(w, i.operands[n].reg, on);
}

}  // namespace ptx
