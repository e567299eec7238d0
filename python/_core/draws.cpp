// python/_core/draws.cpp: random numbers as PyTorch's generator of the CPU draws them.
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/mt19937.h"
#include "bindings.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace hologram::python {
namespace {

// What torch.get_rng_state() begins with; two floats of its normal numbers follow.
struct State {
  uint64_t seed;
  int32_t left;  // words of the state that are not used, and one
  int32_t seeded;
  uint64_t next;
  uint64_t words[Mt19937::words];
};

void draw(const std::string& kind, uint64_t state, size_t bytes, uint64_t out, size_t n, double p) {
  if (bytes < sizeof(State)) fail(ErrorCode::invalid_argument, "draw: state has {} bytes", bytes);
  auto* given = reinterpret_cast<State*>(state);
  Mt19937 generator;
  for (uint32_t i = 0; i < Mt19937::words; ++i)
    generator.state[i] = static_cast<uint32_t>(given->words[i]);
  generator.next = Mt19937::words + 1 - static_cast<uint32_t>(given->left);
  if (kind == "bernoulli")
    draw_below(generator, static_cast<uint64_t>(std::ceil(std::ldexp(p, 53))),
               reinterpret_cast<uint8_t*>(out), n);
  else
    draw_uniform(generator, reinterpret_cast<float*>(out), n);
  for (uint32_t i = 0; i < Mt19937::words; ++i) given->words[i] = generator.state[i];
  given->left = static_cast<int32_t>(Mt19937::words + 1 - generator.next);
  given->next = generator.next;
}

}  // namespace

void bind_draws(nb::module_& m) {
  m.def("draw", &draw, nb::arg("kind"), nb::arg("state"), nb::arg("bytes"), nb::arg("out"),
        nb::arg("n"), nb::arg("p") = 0.0,
        "n numbers of the generator whose state, as torch.get_rng_state() gives it, lies at an "
        "address, which then holds the next state. kind: 'bernoulli', bytes that are 1 with "
        "probability p, or 'uniform', floats from 0 to less than 1.");
}

}  // namespace hologram::python
