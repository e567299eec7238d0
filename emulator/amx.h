// emulator/amx.h: AMX on machines without it: a handler of SIGILL that carries the
// instructions out.
//
// It knows LDTILECFG, STTILECFG, TILERELEASE, TILEZERO, TILELOADD, TILELOADDT1, TILESTORED,
// TDPBF16PS and TDPB[SU][SU]D as Intel's instruction set reference defines them. Anything else, and
// what would fault on the processor (no configuration, shapes that do not fit), ends the process as
// SIGILL does. The state is the thread's.
#pragma once

#if defined(__x86_64__) && defined(__linux__)

#include <immintrin.h>
#include <signal.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstring>

// The handler touches memory of generated code, about which a sanitizer knows nothing.
#define HOLOGRAM_AMX_RAW __attribute__((no_sanitize("address", "undefined", "thread"), noinline))

namespace hologram::test::amx {

inline constexpr int tiles = 8, max_rows = 16, max_bytes = 64;

struct State {
  uint8_t config[64] = {};  ///< as LDTILECFG reads it; byte 0 is 0 in the initial state
  alignas(64) uint8_t data[tiles][max_rows][max_bytes] = {};
  int64_t executed = 0;                    ///< instructions carried out on this thread
  int64_t products = 0, product_rows = 0;  ///< of them tile products, and the rows of their sums

  int row_bytes(int tile) const { return config[16 + 2 * tile] | config[17 + 2 * tile] << 8; }
  int rows(int tile) const { return config[48 + tile]; }
};

inline State& state() {
  thread_local State s;
  return s;
}

/// Copies without a function that a sanitizer replaces.
HOLOGRAM_AMX_RAW inline void copy(void* to, const void* from, size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

HOLOGRAM_AMX_RAW inline void clear(void* to, size_t bytes) {
  asm volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(0) : "memory");
}

/// An instruction's parts.
struct Decoded {
  int length = 0, opcode = 0, prefix = 0;  ///< prefix: VEX.pp: 0 none, 1 66, 2 F3, 3 F2
  bool memory = false;
  int reg = 0, rm = 0, vvvv = 0;  ///< tile numbers
  uint64_t base = 0;              ///< memory: base + displacement
  int64_t stride = 0;             ///< memory with SIB: the scaled index
  bool sib = false;
};

/// Reads the VEX-encoded instruction of map 0F38 at `code`; length 0 if it is none.
HOLOGRAM_AMX_RAW inline Decoded decode(const uint8_t* code, const greg_t* registers) {
  static constexpr int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                  REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                  REG_R12, REG_R13, REG_R14, REG_R15};
  Decoded d;
  if (code[0] != 0xc4 || (code[1] & 0x1f) != 2) return d;
  bool r = !(code[1] & 0x80), x = !(code[1] & 0x40), b = !(code[1] & 0x20);
  if (code[2] & 0x84) return d;  // W and L are 0
  d.vvvv = ~(code[2] >> 3) & 15;
  d.prefix = code[2] & 3;
  d.opcode = code[3];
  int mod = code[4] >> 6, rm = code[4] & 7, at = 5;
  d.reg = (code[4] >> 3 & 7) | r << 3;
  if (mod == 3) {
    d.rm = rm | b << 3;
    d.length = at;
    return d;
  }
  d.memory = true;
  bool from_ip = false;
  if (rm == 4) {
    d.sib = true;
    int scale = code[at] >> 6, index = (code[at] >> 3 & 7) | x << 3, base = code[at] & 7;
    ++at;
    if (index != 4) d.stride = static_cast<int64_t>(registers[order[index]]) << scale;
    if (base == 5 && mod == 0)
      mod = 4;  // a displacement alone
    else
      d.base = static_cast<uint64_t>(registers[order[base | b << 3]]);
  } else if (rm == 5 && mod == 0) {
    from_ip = true;
    mod = 4;
  } else {
    d.base = static_cast<uint64_t>(registers[order[rm | b << 3]]);
  }
  if (mod == 1) {
    d.base += static_cast<uint64_t>(static_cast<int8_t>(code[at]));
    at += 1;
  } else if (mod == 2 || mod == 4) {
    int32_t displacement = 0;
    copy(&displacement, code + at, 4);
    d.base += static_cast<uint64_t>(int64_t{displacement});
    at += 4;
  }
  d.length = at;
  if (from_ip) d.base += reinterpret_cast<uint64_t>(code) + static_cast<uint64_t>(at);
  return d;
}

/// Configurations that LDTILECFG takes: palette 1, or 0 for the initial state.
HOLOGRAM_AMX_RAW inline bool load_config(State& s, const uint8_t* from) {
  uint8_t config[64];
  copy(config, from, 64);
  if (config[0] > 1) return false;
  clear(s.data, sizeof(s.data));
  if (config[0] == 0) {
    clear(s.config, 64);
    return true;
  }
  for (int i = 2; i < 64; ++i)  // reserved
    if (config[i] && (i < 16 || (i >= 32 && i < 48) || i >= 56)) return false;
  for (int t = 0; t < tiles; ++t) {
    int bytes = config[16 + 2 * t] | config[17 + 2 * t] << 8, rows = config[48 + t];
    if (bytes > max_bytes || rows > max_rows || (bytes == 0) != (rows == 0)) return false;
  }
  copy(s.config, config, 64);
  return true;
}

HOLOGRAM_AMX_RAW inline float widen(const uint8_t* bf16) {
  uint32_t bits = static_cast<uint32_t>(bf16[0] | bf16[1] << 8) << 16;
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

/// TDPBF16PS, by the processor's own multiply-adds with subnormal numbers as 0 on both sides.
__attribute__((target("avx2,fma"))) HOLOGRAM_AMX_RAW inline void dot_bf16(State& s, int c, int a,
                                                                          int b) {
  unsigned old = _mm_getcsr();
  const unsigned flushing = 0x9fc0;  // as after a reset, but subnormal numbers are 0
  asm volatile("ldmxcsr %0" : : "m"(flushing));
  int columns = s.row_bytes(c) / 4, pairs = s.row_bytes(a) / 4;
  for (int m = 0; m < s.rows(c); ++m) {
    alignas(32) float even[16] = {}, odd[16] = {}, out[16] = {};
    copy(out, s.data[c][m], 64);
    for (int k = 0; k < pairs; ++k) {
      __m256 x = _mm256_set1_ps(widen(&s.data[a][m][4 * k]));
      __m256 y = _mm256_set1_ps(widen(&s.data[a][m][4 * k + 2]));
      for (int n = 0; n < 16; n += 8) {
        __m256i words = _mm256_load_si256(reinterpret_cast<const __m256i*>(&s.data[b][k][4 * n]));
        __m256 low = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
        __m256 high = _mm256_castsi256_ps(
            _mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xffff0000))));
        _mm256_store_ps(even + n, _mm256_fmadd_ps(x, low, _mm256_load_ps(even + n)));
        _mm256_store_ps(odd + n, _mm256_fmadd_ps(y, high, _mm256_load_ps(odd + n)));
      }
    }
    for (int n = 0; n < 16; n += 8) {
      __m256 pair = _mm256_add_ps(_mm256_load_ps(even + n), _mm256_load_ps(odd + n));
      _mm256_store_ps(out + n, _mm256_add_ps(_mm256_load_ps(out + n), pair));
    }
    clear(s.data[c][m], 64);
    copy(s.data[c][m], out, static_cast<size_t>(4 * columns));
  }
  asm volatile("ldmxcsr %0" : : "m"(old));
}

/// TDPB[SU][SU]D.
HOLOGRAM_AMX_RAW inline void dot_bytes(State& s, int c, int a, int b, bool a_signed,
                                       bool b_signed) {
  int columns = s.row_bytes(c) / 4, groups = s.row_bytes(a) / 4;
  for (int m = 0; m < s.rows(c); ++m) {
    uint32_t out[16] = {};
    copy(out, s.data[c][m], 64);
    for (int k = 0; k < groups; ++k)
      for (int n = 0; n < columns; ++n)
        for (int j = 0; j < 4; ++j) {
          uint8_t x = s.data[a][m][4 * k + j], y = s.data[b][k][4 * n + j];
          int p = a_signed ? static_cast<int8_t>(x) : x, q = b_signed ? static_cast<int8_t>(y) : y;
          out[n] += static_cast<uint32_t>(p * q);
        }
    clear(s.data[c][m], 64);
    copy(s.data[c][m], out, static_cast<size_t>(4 * columns));
  }
}

/// Carries out one instruction; false if it is none of ours or would fault.
HOLOGRAM_AMX_RAW inline bool execute(State& s, const Decoded& d) {
  auto ready = [&](int tile) { return tile < tiles && s.config[0] == 1 && s.rows(tile) > 0; };
  auto* memory = reinterpret_cast<uint8_t*>(d.base);
  if (d.opcode == 0x49 && d.memory && d.prefix == 0) return load_config(s, memory);
  if (d.opcode == 0x49 && d.memory && d.prefix == 1) {
    copy(memory, s.config, 64);
    return true;
  }
  if (d.opcode == 0x49 && !d.memory && d.prefix == 0 && d.reg == 0 && d.rm == 0) {
    clear(s.config, 64);
    clear(s.data, sizeof(s.data));
    return true;
  }
  if (!ready(d.reg)) return false;
  if (d.opcode == 0x49 && !d.memory && d.prefix == 3 && d.rm == 0) {
    clear(s.data[d.reg], sizeof(s.data[0]));
    return true;
  }
  if (d.opcode == 0x4b && d.memory && d.sib && d.prefix) {
    auto bytes = static_cast<size_t>(s.row_bytes(d.reg));
    if (d.prefix != 2) clear(s.data[d.reg], sizeof(s.data[0]));
    for (int row = 0; row < s.rows(d.reg); ++row) {
      uint8_t *there = memory + row * d.stride, *here = s.data[d.reg][row];
      d.prefix == 2 ? copy(there, here, bytes) : copy(here, there, bytes);
    }
    return true;
  }
  if ((d.opcode != 0x5c && d.opcode != 0x5e) || d.memory) return false;
  int c = d.reg, a = d.rm, b = d.vvvv;
  if (!ready(a) || !ready(b) || c == a || c == b || a == b) return false;
  if (s.row_bytes(c) % 4 || s.row_bytes(a) % 4 || s.row_bytes(b) != s.row_bytes(c) ||
      s.rows(a) != s.rows(c) || s.rows(b) != s.row_bytes(a) / 4)
    return false;
  ++s.products;
  s.product_rows += s.rows(c);
  if (d.opcode == 0x5e)
    dot_bytes(s, c, a, b, d.prefix >= 2, d.prefix % 2 == 1);
  else if (d.prefix == 2)
    dot_bf16(s, c, a, b);
  else
    return false;
  return true;
}

HOLOGRAM_AMX_RAW inline void on_illegal(int signal, siginfo_t*, void* context) {
  auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  Decoded d = decode(reinterpret_cast<const uint8_t*>(registers[REG_RIP]), registers);
  State& s = state();
  if (d.length == 0 || !execute(s, d)) {
    ::signal(signal, SIG_DFL);  // the instruction runs again, and ends the process
    return;
  }
  ++s.executed;
  registers[REG_RIP] += d.length;
}

/// While it lives, AMX instructions that this machine lacks are emulated. One at a time.
class Emulator {
 public:
  Emulator() {
    struct sigaction action = {};
    action.sa_sigaction = on_illegal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, &old_);
  }
  ~Emulator() { sigaction(SIGILL, &old_, nullptr); }
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

 private:
  struct sigaction old_ = {};
};

}  // namespace hologram::test::amx

#endif
