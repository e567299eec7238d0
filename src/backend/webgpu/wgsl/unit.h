// backend/webgpu/wgsl/unit.h: a WGSL module under construction: text, bindings, helpers.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "atlas/program.h"
#include "backend/webgpu/wgsl/module.h"
#include "base/error.h"

namespace hologram::webgpu::wgsl {

/// Throws Error(unsupported): the program is left to the host.
template <class... Args>
[[noreturn]] void unrendered(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::unsupported, format, std::forward<Args>(args)...);
}

/// How values of a type are held: b8 as bool, integers up to 32 bits as i32 and u32, those of 64 as
/// vec2<u32> (lower word first), all floats as f32.
std::string_view held_as(DType t);
/// Throws for a type that WGSL cannot hold (f64).
void require_held(DType t);

/// Writes one module. A binding for each buffer of the program, behind them the word of faults.
class Unit {
 public:
  explicit Unit(const atlas::Program& program);

  const atlas::Program& program;

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_.append(static_cast<size_t>(depth_) * 2, ' ');
    text_ += before_;
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += behind_;
    text_ += '\n';
  }
  /// A block: what `inside` writes stands between the head's "{" and "}".
  template <class F, class... Args>
  void block(F&& inside, fmt::format_string<Args...> head, Args&&... args) {
    line("{} {{", fmt::format(head, std::forward<Args>(args)...));
    ++depth_;
    inside();
    --depth_;
    line("}}");
  }

  /// What `inside` writes counts only where kernels may use subgroups, or only where they may not.
  void with_subgroups(const std::function<void()>& inside) {
    before_ = with_mark;
    inside();
    before_ = {};
  }
  void without_subgroups(const std::function<void()>& inside) {
    behind_ = without_mark;
    inside();
    behind_ = {};
  }

  /// A new name, which is no word of WGSL: "i32" is one.
  std::string fresh(std::string_view stem) { return fmt::format("{}_{}", stem, next_++); }
  /// A helper function of the prelude that the text calls; its name.
  std::string_view helper(std::string_view name);
  /// A variable of the workgroup's memory.
  std::string shared(std::string_view stem, DType held, int64_t elements);

  // Words of the launch (module.h).
  std::string symbol(int k) const { return word(static_cast<size_t>(k)); }
  std::string base(int buffer);
  std::string units(size_t dispatch) const;

  /// An element of a buffer, f32 for halves. `at`: an i32.
  std::string load(int buffer, const std::string& at);
  void store(int buffer, const std::string& at, const std::string& value);
  /// Sets bits of atlas::StickyError.
  void fault(int bits, const std::string& condition);

  /// An entry point that runs `inside` once for each of `units` units: `threads` of them in a
  /// workgroup or, `teams`, a workgroup for each. The unit is "unit", the thread "lane".
  void entry(std::string_view name, const Expr& units, int threads, bool teams,
             const std::function<void()>& inside);

  /// So many rounds of loops may a thread of the dispatch that is written last run.
  void set_rounds(const Expr& rounds);

  Module finish();

 private:
  std::string word(size_t k) const;
  std::string place(int buffer, const std::string& at);
  bool packed(DType t) const { return size_of(t) < 4; }
  bool atomic(int buffer) const;
  void declare(std::string& out) const;

  std::string text_, shared_;
  std::string_view before_, behind_;  // marks of the lines that are written now
  std::set<std::string, std::less<>> helpers_;
  std::set<int> used_;  // buffers of the entry that is written now
  bool faults_ = false, entry_faults_ = false;
  int depth_ = 0, next_ = 0;
  Module module_;
};

}  // namespace hologram::webgpu::wgsl
