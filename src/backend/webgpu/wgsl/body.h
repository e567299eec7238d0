// backend/webgpu/wgsl/body.h: bodies as statements of WGSL.
#pragma once

#include <map>

#include "backend/webgpu/wgsl/unit.h"

namespace hologram::webgpu::wgsl {

/// What a body sees: each a WGSL expression.
struct Scope {
  std::map<int, std::string> axes;        ///< i32, by axis number
  std::vector<std::string> accumulators;  ///< values that may be read or accumulated
};

/// A value of a body. A 64-bit integer that is known to fit has `narrow`, an i32, in place of text.
struct Value {
  std::string text;
  std::string narrow = {};
};

/// An index expression as an i32. Sizes and indices of one launch stay below 2^31.
std::string index_text(Unit& unit, const Expr& e, const Scope& scope,
                       const std::vector<std::string>* clamped = nullptr);

/// Bits of a type as a constant.
std::string constant_text(Unit& unit, DType type, uint64_t bits);

/// Writes the instructions of one body.
class BodyWriter {
 public:
  BodyWriter(Unit& unit, const Scope& scope) : unit_(unit), scope_(scope) {}
  void write(const atlas::Body& body);
  /// The text of a value, as its type is held.
  std::string value(atlas::ValueId id);
  std::string last() { return value(static_cast<atlas::ValueId>(values_.size() - 1)); }

 private:
  void step(const atlas::Instr& i, atlas::ValueId id);
  void bind(atlas::ValueId id, DType type, const std::string& text);
  void clamp_index(const atlas::Instr& i, atlas::ValueId id);
  void load(const atlas::Instr& i, atlas::ValueId id);
  void arithmetic(const atlas::Instr& i, atlas::ValueId id);
  bool narrow_arithmetic(const atlas::Instr& i, atlas::ValueId id);
  bool hides(const atlas::Instr& i, atlas::ValueId id) const;
  std::string operand(const atlas::Instr& i, size_t k);

  Unit& unit_;
  const Scope& scope_;
  const atlas::Body* body_ = nullptr;
  std::vector<Value> values_;
  std::vector<std::string> clamped_;  // by value: an i32
};

/// The text of `op` on operands that are held as their type is; casts from `from` to `type`.
std::string arithmetic_text(Unit& unit, ir::Op op, DType type, DType from,
                            const std::vector<std::string>& a);
std::string cast_text(Unit& unit, ir::Op how, const std::string& x, DType from, DType to);
/// x and y combined by a reduce_* op, and what it begins with.
std::string combine_text(Unit& unit, ir::Op reduce, DType type, const std::string& x,
                         const std::string& y);
std::string identity_text(Unit& unit, ir::Op reduce, DType type);

}  // namespace hologram::webgpu::wgsl
