// archive/writer.h: making a .holo archive.
#pragma once

#include <span>
#include <unordered_map>

#include "archive/file.h"
#include "archive/index.h"

namespace hologram::archive {

/// Writes an archive; the file takes its name in finish(). A failed writer leaves the old file.
class Writer {
 public:
  /// `producer`: name and version of the program.
  Writer(std::filesystem::path path, std::string producer);

  /// Writes a tensor and returns its number; one with the same content as an earlier one shares its
  /// bytes. `content`: from its first to its last element. Throws Error(invalid_argument) for a
  /// name that is taken and for another size than shape and strides say, Error(io).
  uint32_t add_tensor(Tensor tensor, std::span<const std::byte> content);
  /// Adds a method whose graph has this text form and returns its number. `method.graph` is filled
  /// in. Throws Error(invalid_argument) for a name that is taken, Error(io).
  uint32_t add_method(Method method, std::string_view graph);
  /// Adds a loop of a method that is there, whose step's graph has this text form. `loop.graph` is
  /// filled in. Throws Error(io).
  void add_loop(Loop loop, std::string_view graph);
  /// Adds code of a method or of a loop; that of one target follows the other. Its sections are
  /// filled in. Throws Error(io).
  void add_precompiled(Precompiled p, std::string_view plan, std::string_view code);
  void add_precompiled_loop(Precompiled p, std::string_view plan, std::string_view code);
  const Index& index() const { return index_; }
  /// The text of a method's graph.
  const std::string& graph(uint32_t method) const { return graphs_[method]; }
  /// The text of the graph of a loop's step.
  const std::string& loop_graph(uint32_t loop) const { return loop_graphs_[loop]; }
  /// Returns the archive's fingerprint.
  Fingerprint finish();

 private:
  uint32_t add_section(SectionKind kind, std::string_view content);
  uint32_t shared_section(SectionKind kind, std::string_view content);
  void add_code(Precompiled p, std::string_view plan, std::string_view code,
                std::vector<Precompiled>& list);

  NewFile file_;
  Index index_;
  std::vector<std::string> graphs_;                   // by method
  std::vector<std::string> loop_graphs_;              // by loop
  std::unordered_map<Fingerprint, uint64_t> places_;  // of contents
};

}  // namespace hologram::archive
