// backend/cuda/facts.h: how a kernel is launched, and how it is stored.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/expr.h"

namespace hologram::cuda {

/// 80 for 8.0. Kernels are made for it, and run on all later ones.
inline constexpr int least_capability = 80;
/// Into how many parts a point's work is cut at most, and the threads of a CTA that merges them.
inline constexpr int most_parts = 64, merge_threads = 128;
/// Values of k that a part of a wide kernel's tile has at least, of elements of so many bytes.
constexpr int least_part(int bytes) { return bytes == 1 ? 1024 : 512; }
/// Multiprocessors of a GPU of capability 9.0 at most.
inline constexpr int most_multiprocessors = 144;
/// The name of the function that merges parts, beside the kernel's.
inline constexpr const char* merge_symbol = "hologram_merge";
/// And of what takes its place for large sizes, and of what prepares a factor for that.
inline constexpr const char* wide_symbol = "hologram_wide";
inline constexpr const char* split_symbol = "hologram_split";
inline constexpr int split_threads = 256;  ///< of a CTA of it
/// And of what takes the kernel's place for products of few rows, and of what merges its parts.
inline constexpr const char* thin_symbol = "hologram_thin";
inline constexpr const char* thin_merge_symbol = "hologram_thin_merge";
inline constexpr int most_thin_rows = 16;
inline constexpr int in_workspace = -1;  ///< in the place of a buffer's number

/// A matrix in a buffer, or several, as tensor maps know it: element (x, y, …) is number first + x
/// + y * strides[0] + …, and a copy takes a box of them.
struct MappedMatrix {
  int buffer = 0;  ///< of those that the kernel gets, or in_workspace
  DType type = DType::bf16;
  Expr first;
  std::vector<Expr> sizes, strides;
  std::vector<int> box;
};

/// Another kernel of the module, @hologram_wide, which does all of the work where sizes and
/// addresses suit it: as many CTAs as there are multiprocessors share `tiles`. Its parameters are
/// the kernel's and a tensor map of each matrix.
struct WideFacts {
  /// Uneven tiles have a CTA each, in the order of their numbers.
  enum class Work { product, attention, uneven_attention };
  Work work = Work::product;
  /// A product's left factor and right factor; queries, keys and values.
  std::vector<MappedMatrix> matrices;
  Expr tiles, depth;
  int threads = 0, shared_bytes = 0;
  /// Where tiles may be cut into parts of k: CTAs of @hologram_merge for each of the points of the
  /// module's kernel, and bytes that a part of these has in the workspace, behind what is computed
  /// first. 0: they may not.
  int merges = 0, part_bytes = 0;
  /// The workspace begins with a word, which hologram_split sets to 0, and the module's kernel runs
  /// behind this one: if the word is something else by then, it does all of the work again.
  bool marks = false;
  static constexpr int mark_bytes = 128;
  /// A left factor comes from registers, which some assemblers use again too early (`witness.h`).
  bool registers = false;

  /// @hologram_split runs first, a thread for eight numbers, and writes what is in the workspace:
  /// all numbers of a factor or, in planes that are the last dimension, of its terms.
  bool computed() const;
};

/// Another kernel of a product's module, @hologram_thin, which does all of the work where there are
/// few rows: launched as Facts say, by points of a CTA each.
struct ThinFacts {
  Expr rows;  ///< how many there are
  Expr total, team_bytes, parts;
  int threads = 0, merges = 0;
};

/// Of a kernel whose parallel points are worked on by teams of threads.
struct Facts {
  Expr total;          ///< parallel points
  Expr team_bytes;     ///< of workspace that a team needs; 0: none
  int threads = 256;   ///< of a CTA
  int points = 256;    ///< that a CTA works on at a time
  bool flags = false;  ///< may flag faults
  /// Parts that a point's work may be cut into, each a team: a CTA's point is then number of the
  /// CTA / teams, and what parts leave in their workspace is merged by `merges` CTAs for each
  /// point, unless there is one part or nothing to merge (0). 0 parts: it is not cut.
  Expr parts;
  int merges = 0;
  /// There are all of the parts, however many, and each has `merges` CTAs that merge.
  bool all_parts = false;
  std::optional<WideFacts> wide;
  std::optional<ThinFacts> thin;
};

/// What is known of a wide kernel's machine code.
enum class Verdict : uint8_t { trusted, open, right, wrong };

/// Code that is kept: PTX and, where an assembler made it, machine code, or the code of the host's
/// backend for programs that this one does not render.
struct Stored {
  std::string code;
  Facts facts;
  bool on_host = false;
  std::string cubin = {};  ///< empty: the driver assembles `code`
  Verdict verdict = Verdict::trusted;
};

std::string to_text(const Stored& stored);
/// Reads what to_text() wrote for a program of `num_symbols` symbols. Throws Error(corrupt).
Stored from_text(std::string_view text, int num_symbols);

}  // namespace hologram::cuda
