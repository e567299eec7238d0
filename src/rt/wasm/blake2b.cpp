// rt/wasm/blake2b.cpp: BLAKE2b without a key (RFC 7693), in place of libb2.
#include <blake2.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace {

constexpr std::array<uint64_t, 8> start = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

constexpr uint8_t order[10][16] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                                   {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
                                   {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
                                   {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
                                   {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
                                   {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
                                   {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
                                   {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
                                   {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
                                   {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

void compress(blake2b_state& s, const uint8_t* block, bool last) {
  uint64_t m[16], v[16];
  std::memcpy(m, block, sizeof m);  // little-endian, as WebAssembly is
  std::copy_n(s.h, 8, v);
  std::copy(start.begin(), start.end(), v + 8);
  v[12] ^= s.count;
  if (last) v[14] = ~v[14];
  const auto mix = [&](int a, int b, int c, int d, uint64_t x, uint64_t y) {
    v[a] += v[b] + x;
    v[d] = std::rotr(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = std::rotr(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], 63);
  };
  for (int round = 0; round < 12; ++round) {
    const uint8_t* o = order[round % 10];
    for (int i = 0; i < 4; ++i) mix(i, 4 + i, 8 + i, 12 + i, m[o[2 * i]], m[o[2 * i + 1]]);
    for (int i = 0; i < 4; ++i)
      mix(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[o[8 + 2 * i]], m[o[9 + 2 * i]]);
  }
  for (int i = 0; i < 8; ++i) s.h[i] ^= v[i] ^ v[i + 8];
}

}  // namespace

int blake2b_init(blake2b_state* s, size_t out_bytes) {
  *s = {};
  std::copy(start.begin(), start.end(), s->h);
  s->h[0] ^= 0x01010000 ^ out_bytes;
  s->out_bytes = out_bytes;
  return 0;
}

// A block is compressed when more follows it.
int blake2b_update(blake2b_state* s, const uint8_t* in, size_t bytes) {
  while (bytes > 0) {
    if (s->filled == sizeof s->block) {
      s->count += s->filled;
      compress(*s, s->block, false);
      s->filled = 0;
    }
    const size_t n = std::min(bytes, sizeof s->block - s->filled);
    std::memcpy(s->block + s->filled, in, n);
    s->filled += n;
    in += n;
    bytes -= n;
  }
  return 0;
}

int blake2b_final(blake2b_state* s, uint8_t* out, size_t out_bytes) {
  if (out_bytes != s->out_bytes) return -1;
  s->count += s->filled;
  std::memset(s->block + s->filled, 0, sizeof s->block - s->filled);
  compress(*s, s->block, true);
  std::memcpy(out, s->h, out_bytes);
  return 0;
}
