// examples/linear_layer.cpp: a layer y = relu(x W + b) from single operations.
#include <cstdio>
#include <hologram/hologram.hpp>

int main() {
  constexpr uint64_t batch = 4, in = 8, out = 3;
  try {
    hologram::Executor executor;  // the best backend of this machine
    std::vector<float> x(batch * in), w(in * out), b(batch * out);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5) - 2;
    for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 7) / 4 - 0.75f;
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % out) / 2;

    hologram::Buffer inputs = executor.buffer(x), weights = executor.buffer(w),
                     bias = executor.buffer(b), y = executor.allocate(batch * out);
    executor.gemm(inputs, weights, y, batch, out, in);
    executor.add(y, bias, y, batch * out);
    executor.relu(y, y, batch * out);

    const std::vector<float> result = y.read<float>();
    for (uint64_t r = 0; r < batch; ++r) {
      for (uint64_t c = 0; c < out; ++c) {
        float want = b[r * out + c];
        for (uint64_t k = 0; k < in; ++k) want += x[r * in + k] * w[k * out + c];
        if (result[r * out + c] != (want > 0 ? want : 0)) {
          std::fprintf(stderr, "row %d column %d is wrong\n", int(r), int(c));
          return 1;
        }
        std::printf("%8.3f", double(result[r * out + c]));
      }
      std::printf("\n");
    }
  } catch (const hologram::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
