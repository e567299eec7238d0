// archive/index.h: what a .holo archive holds, and the binary form of that list.
//
// A file is a header of 64 bytes, then raw tensors and sections in any order, then the index:
//   magic "HOLO", u16 major, u16 minor, u64 bytes of the file, u64 offset and u64 bytes of the
//   index, BLAKE2b-256 of the index
// The index is a list of records (kind, payload); readers skip kinds that they do not know. All
// numbers are little-endian; the index uses base/bytes.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/expr.h"
#include "base/fingerprint.h"
#include "runtime/loop_operand.h"

namespace hologram::archive {

/// Strides of an array without elements say nothing.
inline bool row_major(const Shape& strides, const Shape& shape) {
  return strides == contiguous_strides(shape) || numel(shape).is(0);
}

inline constexpr uint16_t format_major = 1, format_minor = 0;
inline constexpr size_t header_bytes = 64;
/// Tensors and sections begin at multiples of it.
inline constexpr uint64_t alignment = 64;
/// Tensors are hashed in pieces of so many bytes.
inline constexpr uint64_t piece_bytes = uint64_t{4} << 20;

enum class SectionKind : uint32_t {
  graph = 1,  ///< the text form of ir/graph.h
  plan = 2,   ///< how a method's kernels are called on one kind of machine (runtime/stored_plan.h)
  code = 3,   ///< their machine code
};

/// Bytes of the file with one hash. Graphs are compared with it when the file is opened, plans and
/// code before they are used.
struct Section {
  uint32_t kind = 0;  ///< a SectionKind, or one of a later version
  uint64_t offset = 0, bytes = 0;
  Fingerprint hash;
};

/// Raw elements: element (i, j, …) at offset + (i * strides[0] + j * strides[1] + …) *
/// size_of(dtype).
struct Tensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape, strides;
  uint64_t offset = 0, bytes = 0;
  bool state = false;  ///< a session has its own copy, which methods write
  std::vector<Fingerprint> pieces = {};
};

/// A size that calls choose.
struct Symbol {
  std::string name;
  int64_t least = 0, most = 0;
};

/// An array that callers pass or get, in row-major order. Sizes are expressions of the method's
/// symbols.
struct Signature {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

/// What a parameter of a graph is bound to.
struct Source {
  enum class Kind : uint8_t { input, tensor };
  Kind kind = Kind::input;
  uint32_t number = 0;

  bool operator==(const Source&) const = default;
};

struct Method {
  std::string name;
  uint32_t graph = 0;  ///< number of its section
  bool reproducible = false, fast = false;
  std::vector<Symbol> symbols;
  std::vector<Signature> inputs, results;
  std::vector<Source> parameters;  ///< of the graph, in order
  std::vector<Expr> guards;        ///< a call's sizes make none of them negative
  std::string structure;           ///< JSON: how languages nest arguments and results
};

/// A host call of a method's graph that is another graph, run once per step: a recurrent layer.
struct Loop {
  uint32_t method = 0;
  uint32_t callee = 0;  ///< number of the call in the method's graph
  uint32_t graph = 0;   ///< number of the section with the step's graph
  bool descending = false;
  std::vector<runtime::LoopOperand> operands;  ///< of the call; parameters of the step's graph
  std::vector<int> results;  ///< of the call: the step's result at each step; -1: an array without
                             ///< elements
  Expr steps = 0;            ///< in the method's sizes
  Shape sizes;               ///< values of the step's symbols, likewise
};

/// A method, or a loop, compiled ahead of time. Used only where the archive is trusted.
struct Precompiled {
  uint32_t method = 0;          ///< or the loop's number
  std::string target;           ///< Backend::target()
  uint32_t abi = 0;             ///< runtime::stored_abi
  std::string generator;        ///< who made it: the planner's sources and Backend::code_key()
  uint32_t plan = 0, code = 0;  ///< numbers of their sections
};

/// Whether names may be this: UTF-8 without control characters.
bool is_plain_text(std::string_view s);

/// An expression of the method's sizes as people read it: "2*batch + 1".
std::string named(const Expr& e, const Method& method);
/// "[batch, 384]".
std::string named(const Shape& shape, const Method& method);

/// Everything in an archive but the bytes of its tensors and sections, which it says the places of.
struct Index {
  std::string producer;  ///< name and version of the program that wrote it
  std::vector<Section> sections;
  std::vector<Tensor> tensors;
  std::vector<Method> methods;
  std::vector<Precompiled> precompiled;
  std::vector<Loop> loops;
  std::vector<Precompiled> precompiled_loops;
};

std::string encode(const Index& index);
/// Throws Error(corrupt) for bytes that are no index, and for one that contradicts itself or names
/// places outside a file of `file_bytes` bytes.
Index decode(std::string_view bytes, uint64_t file_bytes);

struct Header {
  uint16_t major = format_major, minor = format_minor;
  uint64_t file_bytes = 0, index_offset = 0, index_bytes = 0;
  Fingerprint index_hash;
};
std::string encode(const Header& header);
/// Throws Error(corrupt), and Error(unsupported) for a later major version. `bytes`: the file's
/// first ones.
Header decode_header(std::string_view bytes, uint64_t file_bytes);

/// The elements from the first to the last one of a strided tensor, at least 0; 0 where it has
/// none. Throws Error(corrupt) for negative numbers and beyond 2^62.
uint64_t span_of(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides);

}  // namespace hologram::archive
