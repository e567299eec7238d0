// host/pages.h: anonymous memory on huge pages, and pages of our own file.
#pragma once

#include <cstddef>

namespace hologram::host {

inline constexpr size_t huge_page_bytes = size_t{2} << 20;
inline constexpr size_t small_page_bytes = 4096;

/// Maps `bytes` of zeroed memory at an address aligned to huge_page_bytes and asks for huge pages;
/// nullptr when the system refuses. `lead` bytes before it (a multiple of the system's page, or 0)
/// are mapped too, on ordinary pages.
std::byte* map_huge(size_t bytes, size_t lead = 0) noexcept;
/// Unmaps what map_huge gave for the same sizes.
void unmap_huge(std::byte* memory, size_t bytes, size_t lead = 0) noexcept;

/// Asks the system to take the pages of this memory back: those of files are dropped and come back
/// when used; content stays. Elsewhere than on Linux nothing happens.
void page_out(const void* memory, size_t bytes) noexcept;

/// Gives what the C library keeps of freed memory back to the system, where it is glibc.
void trim_heap() noexcept;

/// Gives back the read-only pages of the libraries of Hologram; those that are used
/// again come back from the page cache. Elsewhere than on Linux nothing happens.
void drop_code_pages() noexcept;

}  // namespace hologram::host
