// archive/trust.h: the archives whose machine code this user runs.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/fingerprint.h"

namespace hologram::archive {

/// HOLOGRAM_TRUSTED ("" or "off": none), else hologram/trusted under XDG_CONFIG_HOME or ~/.config.
std::filesystem::path trust_list();
/// Whether the list names an archive. A list that others may write to names none.
bool is_trusted(const Fingerprint& fingerprint) noexcept;
/// Adds an archive to the list; `note`: for people who read it. Throws Error(io), and
/// Error(unavailable) where there is no list.
void trust(const Fingerprint& fingerprint, std::string_view note);
/// 64 hexadecimal digits. Throws Error(invalid_argument).
Fingerprint parse_fingerprint(std::string_view hex);

}  // namespace hologram::archive
