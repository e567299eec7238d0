// base/settings.h: every environment variable that the library reads, in one table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hologram::settings {

/// What a value may be. `no`, `off`, `false` and `0` are off for every kind, and an empty value is
/// as good as none; case does not matter in them and in words of a choice or a list.
enum class Kind : uint8_t {
  on_off,   ///< off, or yes, on, true, 1
  choice,   ///< one of `words`
  size,     ///< bytes, perhaps with K, M or G; off: 0
  count,    ///< a multiple of `step` from `low` to `high`; off: as though unset
  seconds,  ///< a number from 0 on; off: 0
  path,     ///< of a file or folder
  name,     ///< checked by who reads it
  list,     ///< some of `words`, with commas between them
};

struct Setting {
  std::string_view name;
  Kind kind;
  std::string_view fallback;  ///< what holds where it is not set, for people
  std::string_view meaning;
  std::string_view words = "";  ///< with blanks between them
  std::string_view off = "";    ///< the word that off stands for; empty: none, for a choice unset
  uint64_t low = 0, high = UINT64_MAX, step = 1;
};

/// Every variable of the library. The README shows this table.
std::span<const Setting> table();
/// What values it takes, for people: "measured, model or never".
std::string expected(const Setting& setting);

// Each takes the whole name of a variable of the kind, reads the environment as it is now, and
// throws Error(invalid_argument) that names the variable and the value for one that it may not
// have.
bool is_on(std::string_view name);
std::optional<std::string> text(std::string_view name);  ///< choice, path (off: ""), name
std::optional<uint64_t> number(std::string_view name);   ///< size, count
std::optional<double> seconds(std::string_view name);
std::vector<std::string> list(std::string_view name);

/// What text() gives from now on where the environment does not set a path: for bindings, which know
/// where a language keeps its libraries.
void offer(std::string_view name, std::string path);

/// Throws what the readers do: "NAME=value: expected …".
[[noreturn]] void refuse(std::string_view name, std::string_view expected);

/// Reads them all, so that a wrong one is told whether or not anything asks for it, and puts a
/// notice about variables HOLOGRAM_… that are in no table.
void check();

/// A variable of the system or of another program (HOME, PATH, …); empty where it is not set.
std::string foreign(const char* name);

}  // namespace hologram::settings
