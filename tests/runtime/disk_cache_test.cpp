// tests/runtime/disk_cache_test.cpp: the cache of machine code on disk
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "runtime/disk_cache.h"
#include "support/test.h"
#include "support/threads.h"

namespace hologram::runtime {
namespace {

namespace fs = std::filesystem;

class DiskCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "hologram-cache-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path only_entry(const char* extension) const {
    for (const auto& e : fs::recursive_directory_iterator(root_))
      if (e.path().extension() == extension) return e.path();
    return {};
  }
  static void flip(const fs::path& entry, int at, int bits) {
    std::fstream f(entry, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(at);
    const int c = f.get();
    f.seekp(at);
    f.put(static_cast<char>(c ^ bits));
  }

  fs::path root_;
  Fingerprint key_ = fingerprint("a kernel");
};

TEST_F(DiskCacheTest, GivesBackWhatWasPutEvenToAnotherInstance) {
  DiskCache a(root_ / "c", 1 << 20), b(root_ / "c", 1 << 20);
  EXPECT_FALSE(a.get(key_));
  a.put(key_, std::string("code\0more", 9));
  EXPECT_EQ(b.get(key_), std::string("code\0more", 9));
  EXPECT_FALSE(b.get(fingerprint("another")));
  struct stat s;
  ASSERT_EQ(stat((root_ / "c").c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0700u);
  EXPECT_EQ(a.info().entries, 1u);
  EXPECT_EQ(a.clear(), 1u);
  EXPECT_EQ(a.info().entries, 0u);
}

TEST_F(DiskCacheTest, TellsWhatWasUsedBetweenStartAndStop) {
  DiskCache cache(root_ / "c", 1 << 20);
  const Fingerprint other = fingerprint("another"), third = fingerprint("a third");
  cache.put(key_, "before");
  cache.start_recording();
  EXPECT_EQ(cache.get(key_), "before");
  cache.start_recording();
  cache.put(other, "inside");
  cache.note(key_);  // known already
  using Entries = std::vector<std::pair<Fingerprint, std::string>>;
  const Entries both = {{key_, "before"}, {other, "inside"}};
  EXPECT_EQ(cache.stop_recording(), both);
  cache.note(third);  // nowhere
  EXPECT_EQ(cache.stop_recording(), both);
  cache.put(third, "after");
  cache.start_recording();
  cache.note(third);
  EXPECT_EQ(cache.stop_recording(), (Entries{{third, "after"}}));
}

TEST_F(DiskCacheTest, TakesEntriesOfAnotherCacheAlsoWhereItIsOff) {
  DiskCache cache(root_ / "c", 1 << 20);
  cache.give(key_, "code");
  cache.give(key_, "a second time");
  EXPECT_EQ(DiskCache(root_ / "c", 1 << 20).get(key_), "code");
  DiskCache off("", 10);
  off.put(key_, "code");
  EXPECT_FALSE(off.get(key_));
  off.give(key_, "code");
  EXPECT_EQ(off.get(key_), "code");
  off.give(fingerprint("another"), "beyond the limit");
  EXPECT_FALSE(off.get(fingerprint("another")));
}

TEST_F(DiskCacheTest, DropsDamagedEntries) {
  DiskCache cache(root_ / "c", 1 << 20);
  for (int where : {0, 10, 20, 60, 85, -1}) {
    cache.put(key_, "some machine code");
    fs::path entry = only_entry(".kernel");
    ASSERT_FALSE(entry.empty());
    if (where < 0)
      fs::resize_file(entry, 90);
    else
      flip(entry, where, 0x40);
    EXPECT_FALSE(cache.get(key_)) << "damage at " << where;
    EXPECT_FALSE(fs::exists(entry));
  }
}

TEST_F(DiskCacheTest, RefusesAFolderThatOthersMayWriteTo) {
  fs::create_directory(root_ / "open");
  fs::permissions(root_ / "open", fs::perms::all);
  DiskCache cache(root_ / "open", 1 << 20);
  cache.put(key_, "code");
  EXPECT_FALSE(cache.get(key_));
  EXPECT_TRUE(fs::is_empty(root_ / "open"));
  EXPECT_EQ(cache.info().problem, "others may write to it");
}

TEST_F(DiskCacheTest, StaysWithinItsLimitAndKeepsTheRecent) {
  DiskCache cache(root_ / "c", 40'000);
  Fingerprint last;
  for (int i = 0; i < 60; ++i) cache.put(last = fingerprint("k" + std::to_string(i)), std::string(2000, 'x'));
  EXPECT_LE(cache.info().bytes, 40'000u + 40'000u / 8);
  EXPECT_TRUE(cache.get(last));
}

std::span<const std::byte> bytes_of(const std::string& s) { return std::as_bytes(std::span(s)); }

TEST_F(DiskCacheTest, MapsContentThatIsSharedAndReadOnly) {
  DiskCache a(root_ / "c", 1 << 20), b(root_ / "c", 1 << 20);
  const std::string content(10'000, 'w');
  EXPECT_FALSE(a.map(key_, content.size()));
  a.put_mapped(key_, bytes_of(content));
  auto mapped = b.map(key_, content.size());
  ASSERT_TRUE(mapped);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mapped.get()) % 4096, 0u);
  EXPECT_EQ(b.clear(), 1u);  // what is mapped stays
  EXPECT_EQ(std::string(static_cast<const char*>(mapped.get()), content.size()), content);
  EXPECT_FALSE(a.map(key_, content.size()));
}

TEST_F(DiskCacheTest, DropsDamagedMappedEntries) {
  DiskCache cache(root_ / "c", 1 << 20);
  const std::string content(300, 'w');
  auto refused = [&](const std::function<void(const fs::path&)>& damage) {
    cache.put_mapped(key_, bytes_of(content));
    const fs::path entry = only_entry(".packed");
    damage(entry);
    return !cache.map(key_, content.size()) && !fs::exists(entry);
  };
  for (int at = 0; at < 4096 + 300; at += at < 80 || at >= 4090 ? 1 : 500)
    for (int bit = 0; bit < 8; ++bit)
      EXPECT_TRUE(refused([&](const fs::path& entry) { flip(entry, at, 1 << bit); })) << "byte " << at << " bit " << bit;
  for (int size : {0, 10, 4096, 4395, 4397}) EXPECT_TRUE(refused([&](const fs::path& entry) { fs::resize_file(entry, size); })) << size;
  EXPECT_FALSE(refused([](const fs::path&) {}));
}

TEST_F(DiskCacheTest, ArchivesLieThereUntilTheFolderOutgrowsItsLimit) {
  DiskCache cache(root_ / "c", 100'000);
  cache.put(key_, std::string(2000, 'k'));
  for (int i = 0; i < 9; ++i) {
    const auto place = cache.place_of_archive(fingerprint("a" + std::to_string(i)), true);
    ASSERT_TRUE(place);
    std::ofstream(*place) << std::string(20'000, 'a');
    cache.placed(20'000);
  }
  EXPECT_LE(cache.info().bytes, 125'000u);
  EXPECT_TRUE(fs::exists(*cache.place_of_archive(fingerprint("a8"), false)));
  EXPECT_TRUE(cache.get(key_));
  EXPECT_FALSE(DiskCache("", 100'000).place_of_archive(key_, true));
  fs::permissions(root_ / "c", fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(DiskCache(root_ / "c", 100'000).place_of_archive(key_, true));
}

TEST_F(DiskCacheTest, MappedEntriesGoBeforeMachineCode) {
  DiskCache cache(root_ / "c", 100'000);
  cache.put(key_, std::string(2000, 'k'));
  for (int i = 0; i < 20; ++i) cache.put_mapped(fingerprint("p" + std::to_string(i)), bytes_of(std::string(20'000, 'w')));
  EXPECT_LE(cache.info().bytes, 125'000u);
  EXPECT_TRUE(cache.get(key_));
  EXPECT_TRUE(cache.map(fingerprint("p19"), 20'000));
  cache.put_mapped(key_, bytes_of(std::string(60'000, 'w')));  // more than half of the limit
  EXPECT_FALSE(cache.map(key_, 60'000));
}

TEST_F(DiskCacheTest, ManyThreadsAtOnceSeeWholeEntries) {
  DiskCache cache(root_ / "c", 1 << 24);
  std::atomic<int> wrong{0};
  test::on_threads(4, [&](int t) {
    for (int i = 0; i < 100; ++i) {
      cache.put(key_, std::string(5000, static_cast<char>('a' + t)));
      auto got = cache.get(key_);
      if (got && (got->size() != 5000 || got->find_first_not_of(got->front()) != std::string::npos)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(cache.get(key_));
}

TEST_F(DiskCacheTest, SwitchedOffItStoresNothing) {
  DiskCache cache("", 1 << 20);
  cache.put(key_, "code");
  EXPECT_FALSE(cache.get(key_));
  EXPECT_EQ(cache.info().problem, "it is switched off");
}

}  // namespace
}  // namespace hologram::runtime
