// host/pages.cpp: anonymous memory on huge pages.
#include "host/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace hologram::host {
namespace {

size_t page_multiple(size_t bytes) noexcept {
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

std::byte* map_huge(size_t bytes, size_t lead) noexcept {
  bytes = page_multiple(bytes);
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
  munmap(memory - page_multiple(lead), page_multiple(bytes) + page_multiple(lead));
}

}  // namespace hologram::host
