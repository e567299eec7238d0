// tests/runtime/results.h: results of calls in ordinary vectors.
#pragma once

#include "runtime/executable.h"
#include "support/test.h"

namespace hologram::runtime {

template <class T>
class Results : public Outputs {
 public:
  void* allocate(int index, size_t bytes, Frame&) override {
    if (data.size() <= static_cast<size_t>(index)) data.resize(static_cast<size_t>(index) + 1);
    data[static_cast<size_t>(index)].resize(bytes / sizeof(T));
    return data[static_cast<size_t>(index)].data();
  }
  std::vector<std::vector<T>> data;
};

/// One call; its frame goes back.
inline Outcome call(Executable& e, std::vector<void*> inputs, std::vector<int64_t> symbols, Outputs& out, Host* host = nullptr,
                    Kept* kept = nullptr) {
  auto frame = e.lease();
  Outcome outcome = e.run({inputs.data(), symbols.data(), kept}, out, host, *frame);
  e.give_back(std::move(frame));
  return outcome;
}

}  // namespace hologram::runtime
