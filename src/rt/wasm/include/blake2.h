// rt/wasm/include/blake2.h: the part of libb2's interface that base/fingerprint.cpp calls.
#pragma once

#include <cstddef>
#include <cstdint>

struct blake2b_state {
  uint64_t h[8];
  uint64_t count;
  uint8_t block[128];
  size_t filled, out_bytes;
};

int blake2b_init(blake2b_state* state, size_t out_bytes);
int blake2b_update(blake2b_state* state, const uint8_t* in, size_t bytes);
int blake2b_final(blake2b_state* state, uint8_t* out, size_t out_bytes);
