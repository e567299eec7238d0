// atlas/container.h: the binary container of programs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hologram::atlas {

/// Which layer of the instruction set a container or text holds.
enum class Layer : uint8_t { block = 1, lane = 2 };

/// What ByteReader calls the bytes inside in errors.
inline constexpr std::string_view program_bytes = "program bytes";

/// Magic, version, layer, payload and its checksum.
std::string seal(Layer layer, std::string_view payload);
/// The payload of a sound container of this layer; throws Error(corrupt).
std::string_view unseal(Layer layer, std::string_view bytes);
/// Which layer `bytes` hold; throws Error(corrupt).
Layer layer_of(std::string_view bytes);

}  // namespace hologram::atlas
