// cmake/portable/shims.cpp: functions that glibc 2.28 and its libstdc++ lack, by those that they
// have
//
// Linked into what is shipped (cmake/HologramPortable.cmake), hidden from everybody else. A
// function without a section of its own that is used stays out of the library.
#include <malloc.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <new>
#include <sstream>

extern "C" {
int __xstat(int version, const char* path, struct stat* out) noexcept;
int __lxstat(int version, const char* path, struct stat* out) noexcept;
int __fxstat(int version, int file, struct stat* out) noexcept;
void copy_exception_ptr(void* to,
                        const void* from) asm("_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
void destroy_exception_ptr(void* self) asm("_ZNSt15__exception_ptr13exception_ptrD1Ev");
}

#pragma GCC visibility push(hidden)
extern "C" {

// glibc 2.36. LLVM makes names of temporary files with it.
uint32_t arc4random() noexcept {
  uint32_t value = 0;
  auto* bytes = reinterpret_cast<unsigned char*>(&value);
  for (size_t have = 0; have < sizeof value;) {
    const ssize_t got = getrandom(bytes + have, sizeof value - have, 0);  // interrupted: once more
    have += got > 0 ? static_cast<size_t>(got) : 0;
  }
  return value;
}

// glibc 2.33: before, these were inline functions of <sys/stat.h>.
#if defined(__x86_64__)
constexpr int kStatVersion = 1;  // of `struct stat`
#else
constexpr int kStatVersion = 0;
#endif

int stat(const char* path, struct stat* out) noexcept { return __xstat(kStatVersion, path, out); }
int lstat(const char* path, struct stat* out) noexcept { return __lxstat(kStatVersion, path, out); }
int fstat(int file, struct stat* out) noexcept { return __fxstat(kStatVersion, file, out); }

// glibc 2.33. LLVM's statistics alone ask; the older one counts in int.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
struct mallinfo2 mallinfo2() noexcept {
  const struct mallinfo small = mallinfo();
  const auto wide = [](int n) { return static_cast<size_t>(static_cast<unsigned>(n)); };
  return {wide(small.arena),    wide(small.ordblks), wide(small.smblks),  wide(small.hblks),
          wide(small.hblkhd),   wide(small.usmblks), wide(small.fsmblks), wide(small.uordblks),
          wide(small.fordblks), wide(small.keepcost)};
}
#pragma GCC diagnostic pop

// glibc 2.32. Never true: reference counts are atomic.
char __libc_single_threaded = 0;

// CXXABI 1.3.13: the parts that GCC 11 inlines of a constructor and a destructor.
void add_reference(void* self) asm("_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
void add_reference(void* self) {
  void* copy;  // holds the new reference, and is never destroyed
  copy_exception_ptr(&copy, self);
}

void release_reference(void* self) asm("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
void release_reference(void* self) {
  destroy_exception_ptr(self);
  *static_cast<void**>(self) = nullptr;
}

}  // extern "C"

// GLIBCXX 3.4.29
namespace std {
[[noreturn]] void __throw_bad_array_new_length() { throw bad_array_new_length(); }
}  // namespace std

// GLIBCXX 3.4.30; 3.4.11 has it without the promise not to throw.
void std::condition_variable::wait(std::unique_lock<std::mutex>& lock) noexcept {
  _M_cond.wait(*lock.mutex());
}

// GLIBCXX 3.4.26
template std::basic_stringstream<char>::basic_stringstream();

#pragma GCC visibility pop
