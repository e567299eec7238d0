// rt/wasm/host.cpp: threads and memory where there is one thread and a memory without pages.
#include <cstdlib>
#include <mutex>
#include <new>

#include "base/error.h"
#include "host/core_share.h"
#include "host/forks.h"
#include "host/memory_pool.h"
#include "host/pages.h"
#include "host/side_by_side.h"
#include "host/thread_pool.h"

namespace hologram::host {

struct ThreadPool::State {};

ThreadPool::ThreadPool(int) : state_(nullptr) {}
ThreadPool::~ThreadPool() = default;
void ThreadPool::set_num_threads(int) {}
int ThreadPool::num_threads() const noexcept { return 1; }
int ThreadPool::default_threads() { return 1; }
void ThreadPool::set_worker_hook(void (*)()) noexcept {}

int32_t ThreadPool::parallel_for(RangeFn fn, const void* ctx, void* const* bufs,
                                 const int64_t* syms, int64_t total, int64_t,
                                 RangeOptions) noexcept {
  return fn(ctx, bufs, syms, 0, total);
}

void side_by_side(size_t n, const std::function<void(size_t)>& work) {
  for (size_t i = 0; i < n; ++i) work(i);
}

uint32_t fork_count() noexcept { return 0; }

// The C library's heap keeps what is freed; the system takes nothing back.
namespace {

struct alignas(MemoryPool::alignment) Header {
  size_t bytes;
};

}  // namespace

struct MemoryPool::State {};

MemoryPool::MemoryPool(size_t) : state_(nullptr) {}
MemoryPool::~MemoryPool() = default;

void* MemoryPool::allocate(size_t bytes, bool* zeroed) {
  if (zeroed) *zeroed = false;
  const size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* memory = whole < bytes || whole > SIZE_MAX - sizeof(Header)
                     ? nullptr
                     : std::aligned_alloc(alignment, sizeof(Header) + whole);
  if (!memory) fail(ErrorCode::out_of_memory, "no memory for {} bytes", bytes);
  return new (memory) Header{whole} + 1;
}

void MemoryPool::deallocate(void* block) noexcept {
  if (block) std::free(static_cast<Header*>(block) - 1);
}
size_t MemoryPool::capacity(const void* block) noexcept {
  return (static_cast<const Header*>(block) - 1)->bytes;
}
size_t MemoryPool::release() noexcept { return 0; }
size_t MemoryPool::default_limit() { return 0; }

std::byte* map_huge(size_t bytes, size_t) noexcept {
  return static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
}
void unmap_huge(std::byte* memory, size_t, size_t) noexcept { std::free(memory); }

}  // namespace hologram::host

// --- of the standard library
// ----------------------------------------------------------------------

void* operator new(size_t bytes) {
  void* memory = std::malloc(bytes ? bytes : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

// What belongs to the thread lives as long as the instance.
extern "C" int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }

_LIBCPP_BEGIN_NAMESPACE_STD

mutex::~mutex() noexcept = default;
void mutex::lock() {}
bool mutex::try_lock() noexcept { return true; }
void mutex::unlock() noexcept {}

_LIBCPP_END_NAMESPACE_STD
