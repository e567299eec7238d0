// host/pages.cpp: anonymous memory on huge pages, and pages of our own file.
#include "host/pages.h"

#ifdef __linux__
#include <link.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace hologram::host {
namespace {

size_t page_multiple(size_t bytes) noexcept {
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

// Whole huge pages where that takes at most a seventh more: what is left over a huge page lies on
// small ones, which memory reads a quarter slower.
size_t mapped(size_t bytes) noexcept {
  bytes = page_multiple(bytes);
  const size_t more = (huge_page_bytes - bytes % huge_page_bytes) % huge_page_bytes;
  return more <= bytes / 7 && bytes + more > bytes ? bytes + more : bytes;
}

#ifdef __linux__
// Of the file that this code was loaded from, and of those whose names say that they belong to it.
int drop_if_ours(dl_phdr_info* file, size_t, void*) {
  const auto here = reinterpret_cast<uintptr_t>(&drop_if_ours);
  const uintptr_t page = page_multiple(1);
  bool ours = std::strstr(file->dlpi_name, "/libhologram_") != nullptr;
  for (int i = 0; i < file->dlpi_phnum; ++i) {
    const auto& segment = file->dlpi_phdr[i];
    const uintptr_t begin = file->dlpi_addr + segment.p_vaddr;
    ours |= segment.p_type == PT_LOAD && here >= begin && here - begin < segment.p_memsz;
  }
  if (!ours) return 0;
  for (int i = 0; i < file->dlpi_phnum; ++i) {
    const auto& segment = file->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W)) continue;
    const uintptr_t begin = page_multiple(file->dlpi_addr + segment.p_vaddr);
    const uintptr_t end = (file->dlpi_addr + segment.p_vaddr + segment.p_filesz) / page * page;
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  return 0;
}
#endif

}  // namespace

std::byte* map_huge(size_t bytes, size_t lead) noexcept {
  bytes = mapped(bytes);
  lead = page_multiple(lead);
  const size_t reserved = bytes + lead + huge_page_bytes;
  if (reserved < bytes) return nullptr;
  void* const mapping =
      mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapping);
  const uintptr_t past_lead = reinterpret_cast<uintptr_t>(begin) + lead;
  const size_t skip = (huge_page_bytes - past_lead % huge_page_bytes) % huge_page_bytes;
  if (skip != 0) munmap(begin, skip);
  std::byte* const memory = begin + skip + lead;
  const size_t tail = huge_page_bytes - skip;
  if (tail != 0) munmap(memory + bytes, tail);
#ifdef MADV_HUGEPAGE
  madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: small pages do as well
#endif
  return memory;
}

void unmap_huge(std::byte* memory, size_t bytes, size_t lead) noexcept {
  munmap(memory - page_multiple(lead), mapped(bytes) + page_multiple(lead));
}

void page_out([[maybe_unused]] const void* memory, [[maybe_unused]] size_t bytes) noexcept {
#ifdef MADV_PAGEOUT
  const uintptr_t page = page_multiple(1);
  const uintptr_t begin = page_multiple(reinterpret_cast<uintptr_t>(memory));
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_PAGEOUT);
#endif
}

void trim_heap() noexcept {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

void drop_code_pages() noexcept {
#ifdef __linux__
  dl_iterate_phdr(drop_if_ours, nullptr);
#endif
}

}  // namespace hologram::host
