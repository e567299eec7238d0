// backend/cuda/products/terms.h: float32 products by products of bfloat16 terms.
//
// A CTA of four warps computes 64 x 64 results, a warp 32 x 32. The bodies of both factors are run
// where they are read; their terms go to shared memory as three planes of each factor, 32 values of
// k at a time, while the next 32 wait in registers. The epilogue looks at each sum: one that is not
// finite is computed again as a chain.
#pragma once

#include <span>
#include <vector>

#include "backend/cuda/function.h"
#include "gpu/products.h"

namespace hologram::cuda {

/// Whether a product may be taken by terms: of f32, whose bits are not promised.
bool suits_terms(const atlas::ProductBlock& block);

/// The products of terms that are taken, the smallest ones first; 0 is the highest term.
struct TermPair {
  size_t left, right;
};
inline constexpr TermPair term_pairs[] = {{1, 1}, {2, 0}, {0, 2}, {1, 0}, {0, 1}, {0, 0}};
inline constexpr int term_count = 3;

/// How many terms each number has, by the precision that the product asks for.
int terms_of(const atlas::ProductBlock& block);
/// The last ones of term_pairs: six of three terms, three of two, one of one.
std::span<const TermPair> pairs_of(int terms);

/// Of eight f32, four registers of pairs for each of so many terms, the highest one first.
std::vector<std::vector<Value*>> take_terms(CudaFunction& k, Value* numbers,
                                            int terms = term_count);

gpu::Tiling terms_tiling();

/// By mma.m16n8k16, which GPUs of capability 8.0 have.
Facts emit_terms(llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
