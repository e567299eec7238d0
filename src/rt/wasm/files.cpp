// rt/wasm/files.cpp: what the runtime keeps on a disk, where there is none.
#include "archive/file.h"
#include "base/error.h"
#include "runtime/disk_cache.h"

namespace hologram {

namespace archive {

MappedFile::MappedFile(const std::filesystem::path&) {
  fail(ErrorCode::unsupported, "archives in WebAssembly are opened from memory");
}
MappedFile::~MappedFile() = default;

}  // namespace archive

namespace runtime {

DiskCache::DiskCache(std::filesystem::path, uint64_t limit) : limit_(limit) {}
std::filesystem::path DiskCache::default_folder() { return {}; }
uint64_t DiskCache::default_limit() { return 0; }
std::optional<std::string> DiskCache::get(const Fingerprint&) noexcept { return std::nullopt; }
void DiskCache::put(const Fingerprint&, std::string_view) noexcept {}
void DiskCache::note(const Fingerprint&) noexcept {}
std::shared_ptr<void> DiskCache::map(const Fingerprint&, uint64_t) noexcept { return nullptr; }
void DiskCache::put_mapped(const Fingerprint&, std::span<const std::byte>) noexcept {}

}  // namespace runtime
}  // namespace hologram
