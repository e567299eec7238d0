// tests/runtime/device_test.cpp: a device whose memory is not the host's, and plans on it
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "backend/null/device.h"
#include "base/error.h"
#include "runtime/executable.h"
#include "support/refusal.h"
#include "support/test.h"
#include "support/threads.h"

namespace hologram::runtime {
namespace {

using null::FakeDevice;

// Whether the system could read a byte there for us.
bool readable(const void* address) {
  int ends[2];
  if (pipe(ends) != 0) return true;
  const bool can = write(ends[1], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return can;
}

TEST(FakeDevice, ItsMemoryIsReachedByCopiesAlone) {
  FakeDevice& device = FakeDevice::instance();
  auto* block = static_cast<char*>(device.allocate(1000, nullptr));
  EXPECT_TRUE(device.contains(block) && device.contains(block + 999));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
  EXPECT_FALSE(readable(block));
  std::vector<char> in(1000, 'x'), out(1000);
  EXPECT_FALSE(device.contains(in.data()));
  device.copy(block, in.data(), 1000, nullptr);
  device.copy(block + 500, block, 10, nullptr);
  device.copy(out.data(), block, 1000, nullptr);
  EXPECT_EQ(in, out);
  EXPECT_FALSE(readable(block));
  device.deallocate(block, nullptr);
}

TEST(FakeDevice, StreamsKeepTheirOrderAndMixWithEachOther) {
  FakeDevice& device = FakeDevice::instance();
  int mixed = 0;
  for (int round = 0; round < 20; ++round) {
    Stream streams[] = {device.make_stream(), device.make_stream()};
    std::vector<int> done;  // by the device's one thread
    for (int n = 0; n < 20; ++n)
      for (int s = 0; s < 2; ++s)
        device.enqueue(streams[s], [&done, n, s] {
          done.push_back(2 * n + s);
          return 0;
        });
    for (Stream s : streams) device.wait(s);
    ASSERT_EQ(done.size(), 40u);
    int last[] = {-1, -1};
    for (int v : done) {
      EXPECT_GT(v, last[v % 2]);
      last[v % 2] = v;
    }
    mixed += !std::is_sorted(done.begin(), done.end());
    for (Stream s : streams) device.free_stream(s);
  }
  EXPECT_GT(mixed, 0);
}

TEST(FakeDevice, WhatIsFreedIsOverwrittenBehindItsStreamsWork) {
  FakeDevice& device = FakeDevice::instance();
  Stream stream = device.make_stream();
  auto* block = static_cast<char*>(device.allocate(64, stream));
  const auto* bytes = static_cast<const unsigned char*>(device.bytes_of(block));
  const char value = 7;
  device.copy(block, &value, 1, stream);
  int seen = 0;
  device.enqueue(stream, [&] {
    seen = bytes[0];
    return 0;
  });
  device.deallocate(block, stream);
  device.wait(stream);
  EXPECT_EQ(seen, 7);
  EXPECT_EQ(bytes[0], 0xcb);
  device.free_stream(stream);
}

TEST(FakeDevice, AFailureIsToldOnceAndStopsWhatIsBehindIt) {
  FakeDevice& device = FakeDevice::instance();
  Stream stream = device.make_stream();
  bool ran = false;
  device.enqueue(stream, [] { return static_cast<int32_t>(ErrorCode::out_of_memory); });
  device.enqueue(stream, [&] {
    ran = true;
    return 0;
  });
  EXPECT_NE(test::refusal([&] { device.wait(stream); }, ErrorCode::out_of_memory), "");
  EXPECT_FALSE(ran);
  EXPECT_NO_THROW(device.wait(stream));
  device.free_stream(stream);
}

TEST(LateQueues, WaitingForAllEndsWhileQueuesComeAndGo) {
  auto* const queues = new null::LateQueues;  // whose thread never ends
  std::atomic<int> done{0};
  auto come_and_go = [&] {
    for (int i = 0; i < 200; ++i) {
      null::LateQueues::Queue* const q = queues->make();
      queues->push(
          q, [&] { return ++done, 0; }, false);
      queues->free(q);
    }
  };
  std::thread first(come_and_go), second(come_and_go);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(queues->wait_for_all(), 0);
  first.join();
  second.join();
  EXPECT_EQ(done, 400);
  queues->push(
      nullptr, [] { return 3; }, false);
  queues->push(
      nullptr, [&] { return ++done, 0; }, false);
  queues->push(
      nullptr, [&] { return done += 10, 0; }, true);
  EXPECT_EQ(queues->wait_for_all(), 3);
  EXPECT_EQ(done, 410) << "what is not always done is left out behind a failure";
  EXPECT_EQ(queues->wait(nullptr), 0) << "it has been told";
}

// Results where the test wants them: on the device.
class OnDevice : public Outputs {
 public:
  void* allocate(int, size_t bytes, Frame& frame) override { return block = FakeDevice::instance().allocate(bytes, frame.stream); }
  void* block = nullptr;
};

TEST(DevicePlans, OperandsOnTheDeviceStayThere) {
  auto runtime = std::make_shared<Runtime>("null");
  FakeDevice& device = FakeDevice::instance();
  ir::Graph g;
  ir::Value x = g.parameter(0, DType::f32, {6}, {1});
  ir::Value y = g.binary(ir::Op::mul, x, x);
  g.outputs.push_back({y, {1}, -1});
  auto e = Executable::compile(g, {}, runtime);
  const std::vector<float> in{0, 1, 2, 3, 4, 5};
  std::vector<float> out(6);
  void* block = device.allocate(24, nullptr);
  device.copy(block, in.data(), 24, nullptr);
  OnDevice results;
  auto frame = e->lease();
  EXPECT_EQ(e->run({&block, nullptr}, results, nullptr, *frame).status, 0);
  e->give_back(std::move(frame));
  device.copy(out.data(), results.block, 24, nullptr);
  EXPECT_EQ(out, (std::vector<float>{0, 1, 4, 9, 16, 25}));
  device.deallocate(results.block, nullptr);
  device.deallocate(block, nullptr);
}

}  // namespace
}  // namespace hologram::runtime
