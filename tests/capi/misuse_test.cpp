// tests/capi/misuse_test.cpp: random calls get a status each.
//
// HOLOGRAM_MISUSE_CALLS and HOLOGRAM_MISUSE_SEED make it longer and other.
#include "misuse.h"
#include "support.h"
#include "support/environment.h"

namespace hologram::test {
namespace {

struct Function {
  const char* name;
  void (*call)(Misuse&);
};

/// Every function that the library exports; the list is written when CMake runs.
const Function functions[] = {
#define HOLOGRAM_FUNCTION(name) {#name, [](Misuse& m) { m.call(#name, name); }},
#include "capi_functions.inc"
#undef HOLOGRAM_FUNCTION
};

/// Misuse::pairs() calls these, or they change what the whole process does.
const char* const apart[] = {"hologram_executor_wrap",
                             "hologram_buffer_export",
                             "hologram_view_release",
                             "hologram_tensor_to_dlpack",
                             "hologram_tensor_to_dlpack_versioned",
                             "hologram_tensor_from_dlpack",
                             "hologram_tensor_from_dlpack_versioned",
                             "hologram_tensor_from_dlpack_capsule",
                             "hologram_executor_set_memory_limit",
                             "hologram_executor_cleanup",
                             "hologram_new_executor",
                             "hologram_new_executor_auto",
                             "hologram_new_executor_with_backend",
                             "hologram_clear_all_registries",
                             "hologram_set_num_threads"};

class MisuseOn : public testing::TestWithParam<const char*> {};
HOLOGRAM_ON_EVERY_DEVICE(MisuseOn);

TEST_P(MisuseOn, EveryCallGetsAStatus) {
  if (!is_there(GetParam())) GTEST_SKIP() << "no " << GetParam();
  std::vector<Function> list;
  for (const Function& f : functions)
    if (std::none_of(std::begin(apart), std::end(apart), [&](const char* name) { return std::string_view(name) == f.name; }))
      list.push_back(f);
  ASSERT_EQ(list.size() + std::size(apart), std::size(functions));
  const bool interpreted = std::string_view(GetParam()) == "null";
  const uint64_t calls = number("HOLOGRAM_MISUSE_CALLS", interpreted ? 40'000 : 100'000);
  {
    Misuse misuse(number("HOLOGRAM_MISUSE_SEED", 1), GetParam());
    for (uint64_t i = 0; i < calls; ++i) {
      if (misuse.random() % 16 == 0)
        misuse.pairs();
      else
        list[misuse.random() % list.size()].call(misuse);
    }
    EXPECT_TRUE(misuse.odd.empty()) << misuse.odd.size() << ", the first: " << misuse.odd[0];
    // Random, but not hopeless: most functions also did something now and then.
    if (std::getenv("HOLOGRAM_MISUSE_VERBOSE"))
      for (const Function& f : list) std::printf("%-50s %8lu %8lu\n", f.name, misuse.succeeded[f.name], misuse.failed[f.name]);
    EXPECT_GT(misuse.succeeded.size(), list.size() * 3 / 5);
    EXPECT_GT(misuse.failed.size(), list.size() * 3 / 5);
  }
  EXPECT_EQ(made(hologram_live_handles), 0u);
  hologram_set_log_level("warn");
}

}  // namespace
}  // namespace hologram::test
