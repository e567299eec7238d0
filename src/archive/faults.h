// archive/faults.h: what a call whose data was wrong says, as far as a method's file tells it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/index.h"

namespace hologram::archive {

/// An operator of a method that goes by indices, or divides integers.
struct Fault {
  /// An input that is such an index as it came, or such a divisor; `axis` -1: of a flat tensor.
  struct Look {
    uint32_t input = 0;
    int axis = -1;
    int64_t size = 0;
  };
  std::string name;  ///< of the operator and of the model's part
  bool divides = false;
  bool wraps = false;  ///< negative indices count from the end
  std::vector<Look> looks;
};

/// Those that the writer of a method has listed in its structure, under "faults", as text that
/// needs no escapes: records that end with ';' of "operator,part,kind" (kind: i an index, w one
/// that wraps, d a divisor), each look behind them as ",input:axis:size". Text that is something
/// else gives none, since nothing but messages comes of it.
std::vector<Fault> faults_of(const Method& method);

/// Throws what the faults of a call mean: as runtime::raise_faults() does, with the operator where
/// the file tells it, and the index where it is an input. `inputs`: of the call, row-major; none
/// where the host cannot read them.
void raise_faults(int32_t faults, const Method& method, std::span<const void* const> inputs,
                  std::span<const int64_t> symbols);

}  // namespace hologram::archive
