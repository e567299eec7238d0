// tests/capi/stream_test.cpp: streams and events: order, overlap, errors, lives.
#include "support.h"

namespace hologram::test {
namespace {

class Streams : public DeviceTest {
 protected:
  hologram_handle stream() {
    hologram_handle s = made(hologram_stream_create, exec);
    return s;
  }
  hologram_handle event() {
    hologram_handle e = made(hologram_event_create, exec);
    return e;
  }
  void copy_in(hologram_handle s, hologram_handle b, const std::vector<float>& v) {
    ASSERT_OK(hologram_stream_copy_from_bytes(s, b, v.data(), v.size() * sizeof(float)));
  }
  void copy_out(hologram_handle s, hologram_handle b, std::vector<float>& v) {
    ASSERT_OK(hologram_stream_copy_to_bytes(s, b, v.data(), v.size() * sizeof(float)));
  }
  void run(hologram_handle s, hologram_handle e, hologram_handle in, hologram_handle out) {
    ASSERT_OK(hologram_executable_run_on_stream(e, s, &in, 1, &out, 1));
  }
};

HOLOGRAM_ON_EVERY_DEVICE(Streams);

constexpr const char* twice =
    "graph(symbols=1, parameters=1)\n"
    "%0: f32[s0] = parameter index=0 strides=[1]\n"
    "%1: f32[s0] = add %0, %0\n"
    "return %1 strides=[1]\n";

constexpr const char* picked =
    "graph(symbols=2, parameters=2)\n"
    "%0: f32[s0] = parameter index=0 strides=[1]\n"
    "%1: i64[s1] = parameter index=1 strides=[1]\n"
    "%2: f32[s1] = take %0, %1 axis=0 batch=0\n"
    "return %2 strides=[1]\n";

constexpr size_t n = 100;

std::vector<float> round_of(size_t k) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = static_cast<float>(1000 * k + i);
  return v;
}
std::vector<float> doubled(std::vector<float> v) {
  for (float& x : v) x += x;
  return v;
}

// The same buffers serve every round, and the host's bytes change as soon as they are given.
TEST_P(Streams, DoTheirWorkInOrder) {
  const hologram_handle e = compile(twice), s = stream(), x = buffer(n), y = buffer(n);
  std::vector<std::vector<float>> results(20, std::vector<float>(n));
  for (size_t k = 0; k < results.size(); ++k) {
    std::vector<float> values = round_of(k);
    copy_in(s, x, values);
    std::ranges::fill(values, -1.0f);
    run(s, e, x, y);
    copy_out(s, y, results[k]);
  }
  ASSERT_OK(hologram_stream_synchronize(s));
  for (size_t k = 0; k < results.size(); ++k) EXPECT_EQ(results[k], doubled(round_of(k)));
  uint8_t done = 0;
  EXPECT_OK(hologram_stream_query(s, &done));
  EXPECT_TRUE(done == 1 || !is_host());
}

// One stream copies in, another computes, a third copies out; two buffers each, so that copies and work may overlap.
TEST_P(Streams, WaitForEachOtherByEvents) {
  const hologram_handle e = compile(twice), in = stream(), work = stream(), out = stream();
  hologram_handle x[2], y[2], filled[2], computed[2], read[2];
  for (int b : {0, 1}) {
    x[b] = buffer(n), y[b] = buffer(n);
    filled[b] = event(), computed[b] = event(), read[b] = event();
  }
  std::vector<std::vector<float>> results(30, std::vector<float>(n));
  for (size_t k = 0; k < results.size(); ++k) {
    const size_t b = k % 2;
    ASSERT_OK(hologram_stream_wait_event(in, computed[b]));
    copy_in(in, x[b], round_of(k));
    ASSERT_OK(hologram_event_record(filled[b], in));
    ASSERT_OK(hologram_stream_wait_event(work, filled[b]));
    ASSERT_OK(hologram_stream_wait_event(work, read[b]));
    run(work, e, x[b], y[b]);
    ASSERT_OK(hologram_event_record(computed[b], work));
    ASSERT_OK(hologram_stream_wait_event(out, computed[b]));
    copy_out(out, y[b], results[k]);
    ASSERT_OK(hologram_event_record(read[b], out));
  }
  ASSERT_OK(hologram_event_synchronize(read[1]));
  EXPECT_EQ(made(hologram_event_query, read[1]), 1);
  for (hologram_handle s : {in, work, out}) ASSERT_OK(hologram_stream_synchronize(s));
  for (size_t k = 0; k < results.size(); ++k) EXPECT_EQ(results[k], doubled(round_of(k)));
}

// Planted: nobody waits for the copy. A device whose queues are late finds it.
TEST_P(Streams, WithoutAnEventAreInNoOrder) {
  const hologram_handle e = compile(twice), in = stream(), work = stream();
  int wrong = 0;
  for (size_t k = 0; k < 100 && !wrong; ++k) {
    const hologram_handle x = buffer(n), y = buffer(n);
    std::vector<float> result(n);
    copy_in(in, x, round_of(k + 1));
    run(work, e, x, y);
    copy_out(work, y, result);
    ASSERT_OK(hologram_stream_synchronize(work));
    ASSERT_OK(hologram_stream_synchronize(in));
    wrong += result != doubled(round_of(k + 1));
  }
  EXPECT_EQ(wrong > 0, overtakes());
}

TEST_P(Streams, TellErrorsWhenTheyAreWaitedFor) {
  const hologram_handle e = compile(picked), s = stream(), x = buffer(round_of(0));
  const hologram_handle good = buffer<int64_t>({3, 4}, HOLOGRAM_I64), bad = buffer<int64_t>({3, 400}, HOLOGRAM_I64), y = buffer(2);
  hologram_handle inputs[] = {x, bad}, output = y;
  ASSERT_OK(hologram_executable_run_on_stream(e, s, inputs, 2, &output, 1));
  EXPECT_REFUSED(hologram_stream_synchronize(s), HOLOGRAM_INVALID_ARGUMENT, "an index was out of range");
  EXPECT_OK(hologram_stream_synchronize(s));  // once
  inputs[1] = good;
  ASSERT_OK(hologram_executable_run_on_stream(e, s, inputs, 2, &output, 1));
  EXPECT_OK(hologram_stream_synchronize(s));
  EXPECT_EQ(values(y), (std::vector<float>{3, 4}));
  // What is wrong with the arguments is told at once.
  EXPECT_EQ(hologram_executable_run_on_stream(e, s, inputs, 1, &output, 1), HOLOGRAM_INVALID_ARGUMENT);
}

TEST_P(Streams, KeepWhatTheirWorkNeeds) {
  const hologram_handle s = stream();
  std::vector<float> result(n);
  for (size_t k = 0; k < 10; ++k) {
    const hologram_handle e = compile(twice), x = buffer(n);
    hologram_handle y = 0;
    copy_in(s, x, round_of(k));
    run(s, e, x, y = buffer(n));
    copy_out(s, y, result);
    for (hologram_handle b : {x, y}) EXPECT_OK(hologram_buffer_cleanup(b));
    EXPECT_OK(hologram_executable_cleanup(e));
    ASSERT_OK(hologram_stream_synchronize(s));
    EXPECT_EQ(result, doubled(round_of(k)));
  }
}

TEST_P(Streams, MakeTensorsForResults) {
  const hologram_handle e = compile(twice), s = stream(), x = buffer(round_of(2));
  hologram_handle t = 0, wide = 0, turned = 0;
  ASSERT_OK(hologram_executable_run_on_stream(e, s, &x, 1, &t, 1));
  ASSERT_OK(hologram_stream_synchronize(s));
  EXPECT_EQ(elements(t), doubled(round_of(2)));
  // What is not row-major is copied behind what is on the stream.
  const hologram_handle pairs = buffer(2 * n);
  std::vector<float> both = round_of(1), other = round_of(3);
  both.insert(both.end(), other.begin(), other.end());
  ASSERT_OK(hologram_stream_copy_from_bytes(s, pairs, both.data(), both.size() * sizeof(float)));
  ASSERT_OK(hologram_tensor_from_buffer(pairs, "[100, 2]", &wide));
  ASSERT_OK(hologram_tensor_select(wide, 1, 1, &turned));
  t = 0;
  ASSERT_OK(hologram_executable_run_on_stream(e, s, &turned, 1, &t, 1));
  ASSERT_OK(hologram_stream_synchronize(s));
  EXPECT_EQ(elements(t)[0], 2 * both[1]);
}

TEST_P(Streams, BelongToAnExecutor) {
  hologram_handle other = made(hologram_new_executor_with_backend, backend());
  const hologram_handle e = compile(twice), s = stream(), mark = event(), x = buffer(n);
  hologram_handle y = buffer(n), theirs = made(hologram_stream_create, other);
  EXPECT_EQ(hologram_executable_run_on_stream(e, theirs, &x, 1, &y, 1), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_event_record(mark, theirs), HOLOGRAM_INVALID_ARGUMENT);
  const std::vector<float> v(n);
  EXPECT_EQ(hologram_stream_copy_from_bytes(theirs, x, v.data(), n * 4), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_stream_copy_from_bytes(s, x, v.data(), 4), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_OK(hologram_executor_cleanup(other));
  EXPECT_EQ(hologram_stream_synchronize(theirs), HOLOGRAM_NOT_FOUND);
  EXPECT_OK(hologram_stream_cleanup(s));
  EXPECT_EQ(hologram_stream_cleanup(s), HOLOGRAM_NOT_FOUND);
  EXPECT_OK(hologram_event_cleanup(mark));
  EXPECT_EQ(hologram_event_query(mark, nullptr), HOLOGRAM_INVALID_ARGUMENT);
}

TEST_P(Streams, OfADeviceHaveItsAddresses) {
  const hologram_handle s = stream(), x = buffer(n);
  void *native = nullptr, *there = nullptr;
  ASSERT_OK(hologram_stream_native(s, &native));
  hologram_handle again = 0;
  if (is_host()) {
    EXPECT_EQ(native, nullptr);
    EXPECT_EQ(hologram_buffer_device_ptr(exec, x, &there), HOLOGRAM_UNSUPPORTED);
    EXPECT_EQ(hologram_stream_from_native(exec, &native, &again), HOLOGRAM_UNSUPPORTED);
    return;
  }
  ASSERT_OK(hologram_buffer_device_ptr(exec, x, &there));
  EXPECT_NE(there, nullptr);
  ASSERT_OK(hologram_stream_from_native(exec, native, &again));
  const hologram_handle e = compile(twice), y = buffer(n);
  std::vector<float> result(n);
  copy_in(s, x, round_of(5));  // both are one queue
  run(again, e, x, y);
  copy_out(s, y, result);
  ASSERT_OK(hologram_stream_synchronize(s));
  EXPECT_EQ(result, doubled(round_of(5)));
  ASSERT_OK(hologram_stream_cleanup(s));
  copy_in(again, x, round_of(3));  // it outlives the handle that made it
  copy_out(again, x, result);
  ASSERT_OK(hologram_stream_synchronize(again));
  EXPECT_EQ(result, round_of(3));
  ASSERT_OK(hologram_stream_cleanup(again));
  if (std::string_view(backend()) == "null") {  // which knows its streams
    for (void* none : {native, static_cast<void*>(&result)})
      EXPECT_EQ(hologram_stream_from_native(exec, none, &again), HOLOGRAM_INVALID_ARGUMENT);
  }
  ASSERT_OK(hologram_stream_native(stream(), &native));
  ASSERT_OK(hologram_stream_from_native(exec, native, &again));  // the executor frees it before its owner
}

}  // namespace
}  // namespace hologram::test
