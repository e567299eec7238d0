// atlas/verifier.h: what the verifier of block programs offers the checks of single kinds of block.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "atlas/program.h"
#include "base/error.h"
#include "base/expr_format.h"

namespace hologram::atlas {

/// What a body may refer to.
struct BodyScope {
  std::string name;
  std::vector<bool> axes;           ///< visible ones, by number
  std::vector<DType> accumulators;  ///< results that may be read
  const std::vector<std::pair<ir::Op, DType>>* running = nullptr;
  size_t first_running = 0;  ///< number of running[0]
  bool may_store = true;
};

/// Checks one program; every function throws Error(invalid_argument) naming the place.
class Verifier {
 public:
  explicit Verifier(const Program& p) : p_(p) {}

  void run();

  const Program& program() const { return p_; }
  /// The axes of the bodies that follow; extents of those from number `parallel` on may depend on
  /// the ones before it.
  void axes(const std::vector<Axis>& list, int parallel);
  void body(const Body& b, const BodyScope& s);
  /// The type of an earlier value than `position`.
  static DType type_of(const Body& body, ValueId id, size_t position, const std::string& place);
  /// Buffer `number`, read or written as elements of `type`.
  const Buffer& access(int number, DType type, const std::string& place, bool write);

 private:
  void buffer(size_t k);
  template <class B>
  void block(const B& b);
  template <class B>
  void block_body(const B& b, const BodyField<B>& row);

  void symbols(const Expr& e, const std::string& place);
  void expression(const Expr& e, const std::vector<bool>& visible, const std::string& place,
                  const Body* body, size_t position);
  Expr ground(const Expr& e, const Body* body);
  bool surely_runs(const BodyScope& s);
  void bounds(const Instr& i, const Body& body, const std::string& place);
  void arithmetic(const Body& body, const Instr& i, size_t at, const std::string& place);
  void instruction(const Body& body, size_t at, const BodyScope& s);

  const Program& p_;
  std::vector<Expr> grounded_;  ///< extents of the axes
};

/// Whether the number is one of an element type of Atlas, an operation.
inline bool known(DType t) { return static_cast<int>(t) < num_dtypes && t != DType::host; }
inline bool known(ir::Op op) { return static_cast<int>(op) < ir::num_ops; }

}  // namespace hologram::atlas
