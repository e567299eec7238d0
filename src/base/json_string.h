// base/json_string.h: text as JSON.
#pragma once

#include <string>
#include <string_view>

namespace hologram {

/// UTF-8 text in quotes.
std::string json_string(std::string_view text);

}  // namespace hologram
