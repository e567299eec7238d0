// backend/webgpu/wgsl/module.h: a program as WGSL, and how it is launched.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atlas/program.h"

namespace hologram::webgpu::wgsl {

/// Threads of a workgroup.
inline constexpr int workgroup = 64;
/// A row of workgroups: number g of a dispatch is (g % row, g / row), the row cut to what there is.
inline constexpr int64_t grid_row = 65535;

/// One dispatch of a module, in order.
struct Dispatch {
  std::string entry;
  Expr units;                 ///< over the program's symbols
  int threads = workgroup;    ///< of a workgroup
  bool teams = false;         ///< a workgroup for each unit; otherwise a thread for each
  Expr rounds;                ///< at least as many rounds of loops as a thread may run
  std::vector<int> buffers;   ///< that it binds
  bool faults = false;        ///< whether it binds the word of faults
  bool asks_for_fma = false;  ///< whether the constant `has_fma` says that fma() rounds once

  bool operator==(const Dispatch&) const = default;
};

/// The WGSL of a program and its launch. How it is stored is said in docs/webgpu.md: the text
/// begins with a line "//!" of JSON that says the same as this structure.
///
/// Bindings, all in group 0: 0 is a uniform buffer of words, 1 + k the program's buffer k, one
/// behind them the word of faults (atlas::StickyError), which kernels or bits into. Buffers of
/// access `scratch` are memory of the launch, `scratch[k]` elements.
/// The words, 32 bits each, padded with zeros to a multiple of 16 bytes: the symbols; for each
/// buffer the number of its first element in the binding (bindings begin at multiples of 256
/// bytes); for each dispatch its units.
struct Module {
  std::string text;
  std::vector<Dispatch> dispatches;
  std::vector<Expr> scratch;  ///< by buffer: elements, 0 for those that are not scratch
  bool faults = false;
};

/// A line that begins with the one, behind blanks, stands only where kernels may use subgroups; one
/// that ends with the other only where they may not. As it is, a text is for devices without.
inline constexpr std::string_view with_mark = "//+ ", without_mark = " //-";
/// A text for devices with subgroups. Browsers demand a line "enable subgroups;" in front.
std::string with_subgroups(std::string_view text);

/// Throws Error(unsupported), saying why, for a program that is left to the host.
Module render(const atlas::Program& program);
/// Why it would throw; nothing where it does not.
std::optional<std::string> why_unrendered(const atlas::Program& program);

/// What the first line of a text says: the module as render() gave it, and of its program the
/// buffers and the number of symbols.
struct Stored {
  Module module;
  std::vector<atlas::Buffer> buffers;
  int num_symbols = 0;
};
/// Reads it. Throws Error(corrupt) for a line that contradicts itself or is of another form.
Stored read(std::string_view text);

}  // namespace hologram::webgpu::wgsl
