// python/_core/draws.cpp: random numbers as PyTorch's generator of the CPU draws them.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/mt19937.h"
#include "bindings.h"
#include "choices.h"
#include "distributions.h"
#include "mcg31.h"
#include "normal_numbers.h"
#include "runtime/runtime.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace hologram::python {
namespace {

// What torch.get_rng_state() gives.
struct State {
  uint64_t seed;
  int32_t left;  // words of the state that are not used, and one
  int32_t seeded;
  uint64_t next;
  uint64_t words[Mt19937::words];
  double unused_x, second, unused_rho;  // the second number of a pair, where one was asked for
  int32_t has_second, padding;
  float other_second;
  bool has_other_second;
};
static_assert(sizeof(State) == 5056);

Mt19937 generator_of(const State& state) {
  Mt19937 out;
  std::ranges::transform(state.words, out.state.begin(),
                         [](uint64_t word) { return static_cast<uint32_t>(word); });
  out.next = Mt19937::words + 1 - static_cast<uint32_t>(state.left);
  return out;
}

void keep(const Mt19937& generator, State& state) {
  const Mt19937 before = generator_of(state);
  if (before.next == generator.next && before.state == generator.state) return;  // nothing drawn
  std::ranges::copy(generator.state, state.words);
  state.left = static_cast<int32_t>(Mt19937::words + 1 - generator.next);
  state.next = generator.next;
}

// One draw: what each piece of it needs.
struct Draw {
  Mt19937 generator;
  State& state;
  host::ThreadPool* threads;
  Parameters p;
  DType dtype;
  std::byte* out;
  size_t n;

  std::byte* at(size_t i) const { return out + i * static_cast<size_t>(size_of(dtype)); }

  // Words one thread after another, numbers of them by all threads.
  void make(const Maker& maker, size_t first, size_t units) {
    constexpr size_t most = size_t{1} << 17;
    const size_t in_block = most / maker.words;
    const std::unique_ptr<uint32_t[]> words(
        new uint32_t[std::min(units, in_block) * maker.words + draw_room]);
    for (size_t done = 0; done < units; done += in_block) {
      const size_t some = std::min(in_block, units - done);
      draw_words(generator, words.get(), some * maker.words);
      const auto piece = [&](int64_t begin, int64_t end) {
        const auto from = static_cast<size_t>(begin);
        maker.make(p, words.get() + from * maker.words, at(first + (done + from) * maker.elements),
                   static_cast<size_t>(end - begin));
        return 0;
      };
      const auto total = static_cast<int64_t>(some);
      if (threads && maker.slow)
        threads->for_ranges(total, static_cast<int64_t>(4096 / maker.words), piece);
      else
        piece(0, total);
    }
  }

  // Blocks of 16. What is left over is the end of one more, whose words follow those for the rest
  // by itself where elements are as wide as what formulas compute in.
  void make_blocks() {
    const Maker maker = maker_of("normal", dtype);
    make(maker, 0, n / 16);
    if (n % 16 == 0) return;
    uint32_t rest[32 + draw_room];
    if (size_of(dtype) >= 4) draw_words(generator, rest, n % 16 * maker.words / 16);
    make(maker, n - 16, 1);
  }

  // Pairs, of which the second number waits in the state for whoever asks next.
  void make_pairs(bool log) {
    const Maker maker = maker_of(log ? "log_normal" : "pairs", dtype);
    size_t i = 0;
    if (n > 0 && state.has_second) {
      put_normal(state.second, p, log, dtype, out);
      state.has_second = 0;
      state.second = 0;
      i = 1;
    }
    make(maker, i, (n - i) / 2);
    if ((n - i) % 2 == 0) return;
    uint32_t words[4 + draw_room];
    draw_words(generator, words, 4);
    const NormalPair pair = normal_pair(unit_number(words), unit_number(words + 2));
    put_normal(pair.first, p, log, dtype, at(n - 1));
    state.second = pair.second;
    state.has_second = 1;
  }

  // Fisher and Yates; `most`: up to which a number of 32 bits chooses among what is left.
  template <typename T>
  void permute() {
    constexpr size_t most = UINT32_MAX / 20;
    auto* to = reinterpret_cast<T*>(out);
    std::iota(to, to + n, T{0});
    uint32_t words[624 + draw_room];
    const size_t each = n < most ? 1 : 2, in_block = 624 / each;
    for (size_t i = 0; i + 1 < n;) {
      const size_t some = std::min(in_block, n - 1 - i);
      draw_words(generator, words, some * each);
      for (size_t k = 0; k < some; ++k, ++i) {
        const uint64_t number =
            each == 1 ? words[k] : uint64_t{words[2 * k]} << 32 | words[2 * k + 1];
        std::swap(to[i], to[i + number % (n - i)]);
      }
    }
  }

  uint32_t word() {
    uint32_t words[1 + draw_room];
    draw_words(generator, words, 1);
    return words[0];
  }

  void run(std::string_view kind) {
    if (kind == "bernoulli")
      draw_below(generator, static_cast<uint64_t>(std::ceil(std::ldexp(p.a, 53))),
                 reinterpret_cast<uint8_t*>(out), n);
    else if (kind == "mcg31")
      mcg31_below(word(), p.a, reinterpret_cast<uint8_t*>(out), n);
    else if (kind == "normal" && n >= 16)
      make_blocks();
    else if (kind == "normal" || kind == "pairs" || kind == "log_normal")
      make_pairs(kind == "log_normal");
    else if (kind == "permutation")
      dtype == DType::i32 ? permute<int32_t>() : permute<int64_t>();
    else
      make(maker_of(kind, dtype), 0, n);
  }
};

void draw(const std::string& kind, const std::string& dtype, uint64_t state, size_t bytes,
          uint64_t out, size_t n, double a, double b, uint64_t modulus, int64_t base,
          const std::shared_ptr<runtime::Runtime>& runtime) {
  if (bytes < sizeof(State)) fail(ErrorCode::invalid_argument, "draw: state has {} bytes", bytes);
  const auto type = dtype_from_name(dtype);
  if (!type) fail(ErrorCode::invalid_argument, "draw: no dtype \"{}\"", dtype);
  auto& given = *reinterpret_cast<State*>(state);
  Draw one{generator_of(given),
           given,
           runtime ? &runtime->threads() : nullptr,
           {a, b, modulus, base},
           *type,
           reinterpret_cast<std::byte*>(out),
           n};
  one.run(kind);
  keep(one.generator, given);
}

bool choose(const std::string& dtype, uint64_t chances, uint64_t numbers, uint64_t out, size_t rows,
            size_t n, size_t k, bool again) {
  const auto type = dtype_from_name(dtype);
  if (!type) fail(ErrorCode::invalid_argument, "choose: no dtype \"{}\"", dtype);
  if (k == 0 || n == 0 || (k > n && !again))
    fail(ErrorCode::invalid_argument, "choose: {} of {} places", k, n);
  const Choices choices{*type,
                        reinterpret_cast<const void*>(chances),
                        reinterpret_cast<const void*>(numbers),
                        reinterpret_cast<int64_t*>(out),
                        rows,
                        n,
                        k};
  return again ? choose_again(choices) : choose_once(choices);
}

}  // namespace

void bind_draws(nb::module_& m) {
  m.def("draw", &draw, nb::arg("kind"), nb::arg("dtype"), nb::arg("state"), nb::arg("bytes"),
        nb::arg("out"), nb::arg("n"), nb::arg("a") = 0.0, nb::arg("b") = 0.0,
        nb::arg("modulus") = 0, nb::arg("base") = 0, nb::arg("runtime") = nb::none(),
        nb::call_guard<nb::gil_scoped_release>(),
        "n numbers of the generator whose state, as torch.get_rng_state() gives it, lies at an "
        "address, which then holds the next state. kind: 'bernoulli', bytes that are 1 with "
        "probability a; 'mcg31', such bytes as MKL draws them from a seed, one number; "
        "'permutation', "
        "of the numbers below n; 'normal', in blocks where there are 16; or of distributions.h. "
        "runtime: whose threads share the work; None: this one.");
  m.def("choose", &choose, nb::arg("dtype"), nb::arg("chances"), nb::arg("numbers"), nb::arg("out"),
        nb::arg("rows"), nb::arg("n"), nb::arg("k"), nb::arg("again"),
        nb::call_guard<nb::gil_scoped_release>(),
        "k places of each row of n probabilities, as choices.h says, into int64 [rows, k]; the "
        "arguments are addresses. again: a place may be chosen more than once.");
}

}  // namespace hologram::python
