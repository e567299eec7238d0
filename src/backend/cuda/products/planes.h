// backend/cuda/products/planes.h: factors that another kernel computes into the workspace, for
// tensor maps to find them there.
#pragma once

#include "backend/cuda/mapped.h"
#include "backend/cuda/products/terms.h"

namespace hologram::cuda {

/// What planes are made of: of an operand's values, rows of neighbours along k or else along x, of
/// as many matrices as batch axes along which it differs have places; or of each of their bfloat16
/// terms.
struct PlaneSource {
  MappedOperand of;
  bool deep, splits;      ///< along k; into terms
  int of_terms;           ///< how many, if so
  std::vector<int> axes;  ///< of batches
  Expr inner, outer, matrices{1};

  PlaneSource(const MappedOperand& operand, bool along_k, bool in_terms, int of_terms = term_count);
  int terms() const { return splits ? of_terms : 1; }
  DType type() const { return splits ? DType::bf16 : of.type; }
  Expr row() const;     ///< numbers, of which those behind the last one are nobody's
  Expr pieces() const;  ///< eights of its numbers
  Expr bytes() const;
};

/// The planes, which begin so many bytes behind the workspace's start. The box is to be set.
MappedFactor plane_of(const PlaneSource& from, const Expr& behind);
/// Adds @hologram_split to the module, which computes them: a thread eight neighbours. `clears`: it
/// also puts 0 into the first four bytes of the workspace.
void add_planes(Facts& facts, llvm::Module& module, const atlas::Program& program,
                std::span<const PlaneSource> sources, std::span<const MappedMatrix* const> to,
                bool clears = false);

/// Whether @hologram_split computes a factor.
inline bool is_computed(const MappedFactor& f) { return f.matrix.buffer == in_workspace; }

/// The factors of a product as tensor maps bring them.
struct WideFactors {
  MappedFactor left, right;
  bool computed() const { return is_computed(left) || is_computed(right); }
};

/// Factors whose bodies only load, where they are; else as planes of their bodies' values, which
/// lie as what the body reads. Of float32 the right factor is a plane of each of its bfloat16
/// terms, whatever its body does: where it adds up three such terms (schedule::pack_planes),
/// those, else computed ones. Boxes are to be set.
WideFactors find_factors(const atlas::Program& program);

/// Adds @hologram_split to the product's module, which computes those that are planes.
void add_planes(Facts& facts, llvm::Module& module, const atlas::Program& program,
                const WideFactors& factors);

}  // namespace hologram::cuda
