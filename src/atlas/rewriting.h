// atlas/rewriting.h: bodies written anew, and what their comparisons of coordinates say.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "atlas/body.h"

namespace hologram::atlas {

/// What is not negative where comparison `id` of coordinates holds, and only there; nullopt for any
/// other instruction.
std::optional<Expr> margin(const Body& body, ValueId id);

/// What is 0 where equality `id` of coordinates (eq, ne) finds equal ones, and only there; nullopt
/// for any other instruction.
std::optional<Expr> difference(const Body& body, ValueId id);

/// Which instructions are coordinates, or compare some.
std::vector<bool> of_coordinates(const Body& body);

/// A body that is written instruction by instruction from another one, which outlives it.
class Rewriting {
 public:
  explicit Rewriting(const Body& from) : from_(from), to_(from.instrs.size(), no_value) {}

  /// Instruction k with its operands as they are called here.
  Instr renamed(ValueId k) const;
  /// An instruction that stands for none of the other body.
  ValueId add(Instr i) { return out_.add(std::move(i)); }
  void put(ValueId k, Instr i) { to_[k] = add(std::move(i)); }
  void put(ValueId k, DType type, uint64_t bits) {
    put(k, {.code = Code::constant, .type = type, .bits = bits, .expr = {}});
  }
  void alias(ValueId k, ValueId value) { to_[k] = value; }
  /// What value k of the other body is here.
  ValueId place(ValueId k) const { return to_[k]; }
  std::optional<bool> known(ValueId value) const {
    if (value == no_value || out_.instrs[value].code != Code::constant) return std::nullopt;
    return out_.instrs[value].bits != 0;
  }
  Body take() { return std::move(out_); }

 private:
  const Body& from_;
  Body out_;
  std::vector<ValueId> to_;
};

/// The body without what nothing needs: `result`, where one is given, is needed.
Body without_dead(const Body& body, ValueId result = no_value);
/// What value `id` of the body is made of, as a body that ends with it.
Body made_of(const Body& body, ValueId id);

}  // namespace hologram::atlas
