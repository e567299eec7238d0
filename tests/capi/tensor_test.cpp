// tests/capi/tensor_test.cpp: mistakes, products into views, DLPack; what views show is compared with NumPy (tests/python/test_sdk.py)
#include "runtime/dlpack.h"
#include "support.h"

namespace hologram::test {
namespace {

class Tensors : public DeviceTest {
 protected:
  hologram_handle ramp(size_t n) {
    std::vector<float> v(n);
    std::iota(v.begin(), v.end(), 0.0f);
    return buffer(v);
  }
  hologram_handle tensor(hologram_handle b, const char* shape) {
    hologram_handle t = made(hologram_tensor_from_buffer, b, shape);
    return t;
  }
  /// The device that shares its memory, and where a tensor's begins.
  struct Place {
    dlpack::Device device;
    void* data;
  };
  Place place(hologram_handle t) {
    uint64_t address = 0;
    EXPECT_OK(hologram_tensor_to_dlpack_versioned(exec, t, &address));
    auto* m = reinterpret_cast<dlpack::ManagedTensor*>(address);
    const Place found{m->tensor.device, m->tensor.data};
    m->deleter(m);
    return found;
  }
};
HOLOGRAM_ON_EVERY_DEVICE(Tensors);

TEST_P(Tensors, MistakesAreErrors) {
  hologram_handle b = ramp(24), t = tensor(b, "[2, 3, 4]"), v = 0;
  EXPECT_EQ(hologram_tensor_from_buffer(b, "[5, 5]", &v), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_tensor_from_buffer(b, "[4611686018427387904, 4, 4]", &v), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_tensor_from_buffer_with_strides(b, "[2, 3]", "[1]", &v), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_tensor_from_buffer_with_strides(b, "[2, 3]", "[20, 2]", &v), HOLOGRAM_INVALID_ARGUMENT) << "reaches element 24";
  EXPECT_OK(hologram_tensor_from_buffer_with_strides(b, "[2, 3]", "[19, 2]", &v));
  EXPECT_EQ(hologram_tensor_from_buffer_with_strides(b, "[2, 3]", "[-1, 2]", &v), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_tensor_transpose(t, &v), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_tensor_permute(t, "[0, 1, 1]", &v), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_tensor_select(t, 3, 0, &v), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_tensor_select(t, 2, 4, &v), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_tensor_narrow(t, 2, 3, 2, &v), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_tensor_slice(t, 2, 0, 4, 0, &v), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_tensor_slice(t, 2, 4, -1, 1, &v), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_tensor_reshape(exec, t, "[5, 5]", &v), HOLOGRAM_INVALID_ARGUMENT);
}

TEST_P(Tensors, GemmScalesAndAccumulatesIntoAView) {
  hologram_handle a = tensor(ramp(12), "[4, 3]"), at = 0, c = 0;
  hologram_handle target = tensor(buffer(std::vector<float>(18, 1.0f)), "[3, 6]");
  ASSERT_OK(hologram_tensor_narrow(target, 1, 2, 3, &c));
  ASSERT_OK(hologram_tensor_transpose(a, &at));  // 3 x 4
  ASSERT_OK(hologram_tensor_gemm(exec, at, a, c, 0.5, 2));
  const auto x = elements(a), z = elements(target);
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 6; ++j) {
      float want = 1;
      if (j >= 2 && j < 5) {
        want = 2;
        for (size_t l = 0; l < 4; ++l) want += 0.5f * x[l * 3 + i] * x[l * 3 + j - 2];
      }
      EXPECT_EQ(z[i * 6 + j], want) << i << " " << j;
    }
  // Without beta the old values, NaN here, are not read.
  hologram_handle fresh = tensor(buffer(std::vector<float>(9, NAN)), "[3, 3]");
  ASSERT_OK(hologram_tensor_gemm(exec, at, a, fresh, 1, 0));
  EXPECT_EQ(elements(fresh)[0], 0 + 9 + 36 + 81);
  EXPECT_EQ(hologram_tensor_gemm(exec, at, a, at, 1, 0), HOLOGRAM_INVALID_ARGUMENT);
  hologram_handle square = made(hologram_tensor_narrow, a, 0, 0, 3);
  EXPECT_REFUSED(hologram_tensor_gemm(exec, square, square, square, 1, 0), HOLOGRAM_INVALID_ARGUMENT, "overlaps");
}

/// DLManagedTensor of DLPack 0.x.
struct Managed {
  dlpack::Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};

TEST_P(Tensors, DlpackFromTheHost) {
  const bool shares = std::string_view(GetParam()) == "cpu";
  static int deleted;
  deleted = 0;
  alignas(4) float memory[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 3};
  Managed m{{memory, {dlpack::cpu, 0}, 2, {dlpack::code_float, 32, 1}, shape, nullptr, 0}, nullptr, [](Managed*) { ++deleted; }};
  const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&m));
  char json[128];
  EXPECT_EQ(hologram_tensor_from_dlpack_capsule(exec, address, json, 10, nullptr), HOLOGRAM_SHORT_BUFFER);
  m.tensor.device.type = dlpack::cuda;
  EXPECT_EQ(hologram_tensor_from_dlpack_capsule(exec, address, json, sizeof json, nullptr), HOLOGRAM_UNSUPPORTED);
  EXPECT_TRUE(message_has("DLPack device (2, 0); expected the host's")) << hologram_last_error();
  m.tensor.device.type = 1;
  m.tensor.dtype.lanes = 4;
  EXPECT_EQ(hologram_tensor_from_dlpack_capsule(exec, address, json, sizeof json, nullptr), HOLOGRAM_UNSUPPORTED);
  EXPECT_EQ(deleted, 0);
  m.tensor.dtype.lanes = 1;
  ASSERT_OK(hologram_tensor_from_dlpack_capsule(exec, address, json, sizeof json, nullptr));
  unsigned long long b = 0, t = 0;
  ASSERT_EQ(std::sscanf(json, "{\"buffer\": %llu, \"tensor\": %llu}", &b, &t), 2) << json;
  EXPECT_EQ(values(b), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  ASSERT_OK(hologram_vector_neg_f32(exec, b, b, 6));
  EXPECT_EQ(values(b)[5], -6);
  EXPECT_EQ(memory[5], shares ? -6 : 6);
  EXPECT_OK(hologram_tensor_cleanup(t));
  EXPECT_EQ(deleted, shares ? 0 : 1);
  EXPECT_OK(hologram_buffer_cleanup(b));
  EXPECT_EQ(deleted, 1);
  int64_t backwards[2] = {-3, 1};
  m.tensor.data = memory + 3;
  m.tensor.strides = backwards;
  uint8_t copied = 0;
  hologram_handle v = made(hologram_tensor_from_dlpack, exec, address, &copied);
  EXPECT_EQ(copied, 1);
  EXPECT_EQ(deleted, 2);
  const float sign = shares ? -1 : 1;
  EXPECT_EQ(elements(v), (std::vector<float>{4 * sign, 5 * sign, 6 * sign, sign, 2 * sign, 3 * sign}));
  int32_t device = 0;
  EXPECT_OK(hologram_tensor_dlpack_device_type(exec, &device));
  EXPECT_EQ(device, place(v).device.type);
  EXPECT_EQ(device == dlpack::cpu, shares);
}

TEST(DeviceTensors, AreTakenByExecutorsOfTheirDeviceAlone) {
  hologram_handle host = 0, device = 0, other = 0, b = 0, t = 0, back = 0;
  ASSERT_OK(hologram_new_executor(&host));
  ASSERT_OK(hologram_new_executor_with_backend("null", &device));
  ASSERT_OK(hologram_new_executor_with_backend("null", &other));
  const float in[4] = {1, 2, 3, 4};
  ASSERT_OK(hologram_executor_allocate_buffer(device, 4, &b));
  ASSERT_OK(hologram_buffer_copy_from_bytes(device, b, in, sizeof in));
  ASSERT_OK(hologram_tensor_from_buffer(b, "[2, 2]", &t));
  uint64_t address = 0;
  uint8_t copied = 9;
  ASSERT_OK(hologram_tensor_to_dlpack(device, t, &address));
  EXPECT_EQ(hologram_tensor_from_dlpack(host, address, &copied, &back), HOLOGRAM_UNSUPPORTED);
  ASSERT_OK(hologram_tensor_from_dlpack(other, address, &copied, &back));
  EXPECT_EQ(copied, 0);
  ASSERT_OK(hologram_buffer_fill(device, b, 7, 2));
  EXPECT_OK(hologram_executor_cleanup(device));
  float out[4] = {};
  EXPECT_OK(hologram_tensor_to_bytes(other, back, out, sizeof out, nullptr));
  EXPECT_EQ(std::vector<float>(out, out + 4), (std::vector<float>{7, 7, 3, 4})) << "it is shared";
  // A device's number on memory that is not its own.
  int64_t shape[1] = {4};
  Managed m{{out, {12, 0}, 1, {dlpack::code_float, 32, 1}, shape, nullptr, 0}, nullptr, nullptr};
  EXPECT_EQ(hologram_tensor_from_dlpack(other, reinterpret_cast<uintptr_t>(&m), &copied, &back), HOLOGRAM_INVALID_ARGUMENT);
  for (hologram_handle e : {host, other}) EXPECT_OK(hologram_executor_cleanup(e));
}

TEST_P(Tensors, BytesComeInRowMajorOrderWhereverTheyGo) {
  hologram_handle t = tensor(ramp(6), "[2, 3]"), v = made(hologram_tensor_transpose, t);
  alignas(8) std::byte room[32] = {};
  size_t needed = 0;
  EXPECT_EQ(hologram_tensor_to_bytes(exec, v, room, 23, &needed), HOLOGRAM_SHORT_BUFFER);
  EXPECT_EQ(needed, 24u);
  ASSERT_OK(hologram_tensor_to_bytes(exec, v, room + 1, 24, nullptr));  // misaligned
  float out[6];
  std::memcpy(out, room + 1, sizeof out);
  EXPECT_EQ(std::vector<float>(out, out + 6), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(room[0], std::byte{0});
  EXPECT_EQ(room[25], std::byte{0});
  hologram_handle other = made(hologram_new_executor_with_backend, backend());
  EXPECT_EQ(hologram_tensor_to_bytes(other, v, room, 32, nullptr), HOLOGRAM_INVALID_ARGUMENT);
  ASSERT_OK(hologram_executor_cleanup(other));
}

}  // namespace
}  // namespace hologram::test
