// examples/statuses.cpp: the C++ interface without exceptions.
#include <cstdio>
#include <hologram/hologram.hpp>

int main() {
  namespace hg = hologram::status;
  hologram::Result<hg::Executor> cuda = hg::Executor::make("cuda");
  if (!cuda) std::printf("%s\n", cuda.status().message().c_str());

  hologram::Result<hg::Executor> executor = cuda ? std::move(cuda) : hg::Executor::make("cpu");
  if (!executor) return 1;
  auto a = executor->buffer(std::vector<float>{1, 4, 9});
  auto c = executor->allocate(3);
  if (!a || !c) return 1;
  if (hologram::Status s = executor->elementwise("sqrt", {&*a}, *c, 3); !s) return 1;
  if (hologram::Status s = executor->add(*a, *c, *c, 4); !s)
    std::printf("%s\n", s.message().c_str());
  else
    return 1;  // the buffers have only three elements
  auto values = c->read<float>();
  if (!values) return 1;
  for (float v : *values) std::printf("%g ", double(v));
  std::printf("\n");
  return (*values)[2] == 3 ? 0 : 1;
}
