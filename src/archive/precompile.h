// archive/precompile.h: machine code in archives: making it, and making it again to compare.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "archive/archive.h"
#include "archive/writer.h"
#include "backend/backend.h"

namespace hologram::archive {

/// Compiles every method that is in the writer for these instruction sets (Backend::family, and
/// "wgsl" of the backend webgpu) and adds what is not there yet. Kernels come from `cache` and go there. Throws what compiling
/// throws.
void precompile(Writer& writer, const Backend& backend, std::span<const std::string> isas,
                CodeStore* cache);

/// Likewise for this backend alone, by the number of threads that it has: what it would compile
/// itself. Nothing where its code does not leave the process.
void precompile_here(Writer& writer, const Backend& backend, CodeStore* cache);

/// Writes the archive with code for more instruction sets to `path`, which may be its own; returns
/// the fingerprint of that file.
Fingerprint with_targets(const Archive& archive, const std::filesystem::path& path,
                         const Backend& backend, std::span<const std::string> isas,
                         CodeStore* cache);

/// Compiles every method again from its graph and compares plans and code, byte for byte. Throws
/// Error(corrupt) naming a method and target that differ, Error(unsupported) for code of another
/// version of the planner or generator, and for code of a build whose instructions come in another
/// order.
void verify_code(const Archive& archive, const Backend& backend);

}  // namespace hologram::archive
