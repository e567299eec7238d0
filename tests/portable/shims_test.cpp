// tests/portable/shims_test.cpp: each function of cmake/portable/shims.cpp does what the one that it stands for does
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <set>
#include <stdexcept>
#include <string>

extern "C" uint32_t arc4random() noexcept;
extern "C" char __libc_single_threaded;

namespace {

// The linker took the shim: the address is not that of this system's library, which has the function too.
template <class Function>
void expect_shim(const char* name, Function function) {
  void* of_system = dlsym(RTLD_DEFAULT, name);
  ASSERT_NE(of_system, nullptr) << name;
  EXPECT_NE(reinterpret_cast<const void*>(function), of_system) << name;
}

TEST(Shims, RandomNumbersDiffer) {
  expect_shim("arc4random", &arc4random);
  std::set<uint32_t> seen;
  for (int i = 0; i < 64; ++i) seen.insert(arc4random());
  EXPECT_GT(seen.size(), 60u);
}

TEST(Shims, FilesHaveTheirKindAndSize) {
  expect_shim("stat", static_cast<int (*)(const char*, struct stat*)>(&stat));
  expect_shim("lstat", &lstat);
  expect_shim("fstat", &fstat);
  std::string folder = std::filesystem::temp_directory_path() / "hologram_shims_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string file = folder + "/file", link = folder + "/link";
  const int opened = open(file.c_str(), O_CREAT | O_WRONLY, 0600);
  ASSERT_EQ(write(opened, "12345", 5), 5);
  ASSERT_EQ(symlink("file", link.c_str()), 0);

  struct stat by_name {
  }, by_link{}, of_link{}, by_number{};
  EXPECT_EQ(stat(file.c_str(), &by_name), 0);
  EXPECT_EQ(stat(link.c_str(), &by_link), 0);
  EXPECT_EQ(lstat(link.c_str(), &of_link), 0);
  EXPECT_EQ(fstat(opened, &by_number), 0);
  EXPECT_EQ(by_name.st_size, 5);
  EXPECT_EQ(by_name.st_mode & 07777, 0600u);
  EXPECT_EQ(by_link.st_ino, by_name.st_ino);
  EXPECT_TRUE(S_ISLNK(of_link.st_mode));
  EXPECT_EQ(by_number.st_ino, by_name.st_ino);
  close(opened);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(stat(file.c_str(), &by_name), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST(Shims, MemoryInUseGrowsWithAllocations) {
  expect_shim("mallinfo2", &mallinfo2);
  const size_t before = mallinfo2().uordblks;
  void* volatile block = malloc(100000);
  EXPECT_GE(mallinfo2().uordblks, before + 100000);
  free(block);
}

TEST(Shims, CountersAreAtomicInOneThreadToo) {
  expect_shim("__libc_single_threaded", &__libc_single_threaded);
  EXPECT_EQ(__libc_single_threaded, 0);
}

struct Counted : std::runtime_error {
  explicit Counted(int* live) : std::runtime_error("counted"), live_(live) { ++*live_; }
  Counted(const Counted& other) : std::runtime_error(other), live_(other.live_) { ++*live_; }
  Counted& operator=(const Counted&) = delete;
  ~Counted() override { --*live_; }
  int* live_;
};

TEST(Shims, ExceptionsLiveAsLongAsTheirLastPointer) {
  int live = 0;
  std::exception_ptr first;
  try {
    throw Counted(&live);
  } catch (...) {
    first = std::current_exception();
  }
  std::exception_ptr second = first;
  EXPECT_EQ(live, 1);
  first = nullptr;
  EXPECT_EQ(first, nullptr);
  EXPECT_EQ(live, 1);
  EXPECT_THROW(std::rethrow_exception(second), Counted);
  second = nullptr;
  EXPECT_EQ(live, 0);
}

TEST(Shims, NegativeArraySizesAreRefused) {
  volatile int size = -1;
  EXPECT_THROW(delete[] new int[size], std::bad_array_new_length);
}

}  // namespace
