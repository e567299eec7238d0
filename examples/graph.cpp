// examples/graph.cpp: a chain of operations as one graph, compiled once for every size.
#include <cmath>
#include <cstdio>
#include <hologram/hologram.hpp>

int main() {
  hologram::Executor executor;

  // rows of x: softmax-like weights exp(x) * scale / sum(exp(x)), for any number of rows and
  // columns
  hologram::Graph graph(2);
  auto x = graph.parameter(HOLOGRAM_F32, "[s0, s1]");
  auto scale = graph.parameter(HOLOGRAM_F32, "[s1]");
  auto e = graph.apply("exp", {x});
  auto sum = graph.apply("reduce_sum", {e}, "axes=[1]");
  auto wide = graph.apply("reshape", {sum}, nullptr, "[s0, 1]");
  graph.output(e * scale / wide);
  hologram::Executable weights = graph.compile(executor);
  std::printf("%s\n%s\n", graph.text().c_str(), weights.report().c_str());

  for (int64_t columns : {3, 5}) {
    std::vector<float> values(static_cast<size_t>(2 * columns)),
        scales(static_cast<size_t>(columns), 2.0f);
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.5f * static_cast<float>(i);
    hologram::Buffer a = executor.buffer(values), b = executor.buffer(scales);
    auto results = weights(a.tensor({2, columns}), b.tensor({columns}));
    float total = 0;
    for (float v : results.at(0).read<float>()) total += v;
    std::printf("%d columns: the weights sum to %g\n", int(columns), double(total));
    if (std::fabs(total - 4) > 1e-5f) return 1;
  }
}
