// backend/steps.h: the steps of one plan, with their kernels and buffers.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "atlas/program.h"
#include "backend/launcher.h"

namespace hologram {

/// `Code` is what Kernel::code of a backend points to.
template <class Code>
class Steps {
 public:
  Steps(std::span<const atlas::EntryStep> steps,
        std::span<const std::shared_ptr<const Kernel>> kernels)
      : steps_(steps.begin(), steps.end()), kernels_(kernels.begin(), kernels.end()) {}

  size_t size() const { return steps_.size(); }
  auto begin() const { return steps_.begin(); }
  auto end() const { return steps_.end(); }
  auto data() const { return steps_.data(); }
  const atlas::EntryStep& operator[](size_t s) const { return steps_[s]; }

  static bool is_kernel(const atlas::EntryStep& step) { return step.kernel >= 0; }
  // Of a step that is one:
  const std::shared_ptr<const Kernel>& kernel_of(const atlas::EntryStep& step) const {
    return kernels_[static_cast<size_t>(step.kernel)];
  }
  const Code* code_of(const atlas::EntryStep& step) const {
    return static_cast<const Code*>(kernel_of(step)->code);
  }
  /// The values of its program's symbols, in a call's `arguments`.
  static std::span<const int64_t> symbols_of(const atlas::EntryStep& step,
                                             const int64_t* arguments) {
    return {arguments + step.first_argument, static_cast<size_t>(step.num_arguments)};
  }

 private:
  std::vector<atlas::EntryStep> steps_;
  std::vector<std::shared_ptr<const Kernel>> kernels_;
};

/// Bytes of one of a step's buffers, for these values of its program's symbols.
inline uint64_t bytes_of(const atlas::Buffer& buffer, const Expr& elements,
                         std::span<const int64_t> symbols) {
  return static_cast<uint64_t>(std::max<int64_t>(elements.eval(symbols), 0)) *
         static_cast<uint64_t>(size_of(buffer.dtype));
}

}  // namespace hologram
