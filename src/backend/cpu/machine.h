// backend/cpu/machine.h: what the planner asks of a processor.
#pragma once

#include "backend/cpu/cost.h"
#include "backend/cpu/loops/plan.h"
#include "backend/cpu/products/panels.h"
#include "backend/cpu/products/plan.h"
#include "backend/cpu/target.h"
#include "schedule/machine.h"

namespace hologram::cpu {

/// What plans for this processor may rely on: panels of its registers' width, threads, costs.
class CpuMachine final : public schedule::Machine {
 public:
  explicit CpuMachine(Target target) : target_(std::move(target)) {
    units = target_.threads;
    multiply_adds = cost::multiply_adds;
    fuses = target_.fma;
    sums_rows = target_.isa == Isa::avx512 || target_.isa == Isa::avx2;
    shared_vectors = cpu::shared_vectors(target_);
    byte_columns = cpu::byte_columns(target_);
  }

  schedule::Panel panel(DType operand, DType acc) const override {
    return {cpu::panel_width(target_, operand), cpu::panel_group(target_, operand, acc)};
  }
  int terms(const atlas::ProductBlock& product, bool packed_once) const override {
    return terms_for(target_, product, packed_once);
  }
  bool packs_given_bytes(const atlas::ProductBlock& product) const override {
    return cpu::packs_given_bytes(target_, product);
  }
  int word_columns(const atlas::ProductBlock& product, int bits) const override {
    return cpu::word_columns(target_, product, bits);
  }

 private:
  Target target_;
};

}  // namespace hologram::cpu
