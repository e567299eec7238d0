// tests/capi/cpp_test.cpp: the C++ interface: ownership, exceptions, returned statuses.
#include "hologram/hologram.hpp"
#include "support/paths.h"
#include "support/test.h"

namespace {

uint64_t live() {
  uint64_t n = 0;
  EXPECT_EQ(hologram_live_handles(&n), HOLOGRAM_OK);
  return n;
}

class Cpp : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Devices, Cpp, testing::Values("cpu", "null"), [](const auto& i) { return std::string(i.param); });

TEST_P(Cpp, ObjectsFreeWhatTheyOwnInAnyOrder) {
  const uint64_t before = live();
  {
    hologram::Buffer outlives;
    hologram::Tensor view;
    {
      hologram::Executor executor(GetParam());
      outlives = executor.buffer(std::vector<float>{1, 2, 3, 4, 5, 6});
      view = outlives.tensor({2, 3}).transpose();
      EXPECT_EQ(view.read<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
      EXPECT_EQ(view.shape(), (std::vector<int64_t>{3, 2}));
      hologram::Buffer moved = std::move(outlives);
      outlives = std::move(moved);
      EXPECT_EQ(outlives.size(), 6u);
    }
    EXPECT_THROW((void)outlives.size(), hologram::Error);
  }
  EXPECT_EQ(live(), before);
}

TEST_P(Cpp, FailuresThrowWithCodeAndMessage) {
  hologram::Executor executor(GetParam());
  hologram::Buffer a = executor.allocate(4), c = executor.allocate<int32_t>(4);
  try {
    executor.add(a, a, c, 4);
    FAIL() << "the dtypes differ";
  } catch (const hologram::Error& e) {
    EXPECT_EQ(e.code(), HOLOGRAM_INVALID_ARGUMENT);
    EXPECT_NE(std::string(e.what()).find("dtype must be f32, is i32"), std::string::npos) << e.what();
  }
  EXPECT_THROW(hologram::Executor("cuda"), hologram::Error);
  EXPECT_EQ(executor.backend(), GetParam());
}

TEST_P(Cpp, StreamsAndEventsAreObjects) {
  const uint64_t before = live();
  {
    hologram::Executor executor(GetParam());
    hologram::Graph graph(1);
    auto x = graph.parameter(HOLOGRAM_F32, "[s0]");
    graph.output(x + x);
    const hologram::Executable twice = graph.compile(executor);
    const hologram::Stream in = executor.stream(), work = executor.stream();
    hologram::Event filled = executor.event();
    hologram::Buffer a = executor.allocate(3), b = executor.allocate(3);
    const std::vector<float> values{1, 2, 3};
    std::vector<float> result(3);
    in.write<float>(a, values);
    in.record(filled);
    work.wait_for(filled);
    const hologram_handle inputs[] = {a.get()};
    hologram_handle outputs[] = {b.get()};
    twice.run(work, inputs, outputs);
    work.read<float>(b, result);
    work.synchronize();
    EXPECT_EQ(result, (std::vector<float>{2, 4, 6}));
    work.add(a, b, b, 3);
    work.scalar_mul(b, b, 3, 2);
    work.sum(b, a, 3);
    work.read<float>(a, result);
    work.synchronize();
    EXPECT_EQ(result, (std::vector<float>{36, 2, 3}));
    filled.synchronize();
    EXPECT_TRUE(filled.reached());
    EXPECT_EQ(work.native() == nullptr, std::string_view(GetParam()) == "cpu");
    if (std::string_view(GetParam()) == "cpu")
      EXPECT_THROW((void)a.device_pointer(), hologram::Error);
    else
      EXPECT_NE(a.device_pointer(), nullptr);
  }
  EXPECT_EQ(live(), before);
}

TEST_P(Cpp, FailuresAreReturnedByTheOtherSet) {
  auto none = hologram::status::Executor::make("tpu");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_THROW((void)std::move(none).value(), hologram::Error);
  auto executor = hologram::status::Executor::make(GetParam());
  ASSERT_TRUE(executor.ok());
  auto a = executor->buffer(std::vector<float>{-1, 2});
  ASSERT_TRUE(a.ok());
  EXPECT_TRUE(executor->relu(*a, *a, 2).ok());
  EXPECT_EQ(executor->relu(*a, *a, 3).code(), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(a->read<float>().value(), (std::vector<float>{0, 2}));
  auto graph = hologram::status::Graph::parse("nonsense");
  EXPECT_FALSE(graph.ok());
}

TEST_P(Cpp, EveryOperationReachesItsKernel) {
  hologram::Executor e(GetParam());
  const std::vector<float> x = {0.25f, 0.5f, 0.75f}, y = {0.5f, 0.25f, 1.0f};
  hologram::Buffer a = e.buffer(x), b = e.buffer(y), c = e.allocate(3);
  auto first = [&] { return c.read<float>()[0]; };
  using Executor = hologram::Executor;
  using Buffer = hologram::Buffer;
  using Binary = void (Executor::*)(const Buffer&, const Buffer&, Buffer&, uint64_t) const;
  for (const auto& [f, wanted] : {std::pair<Binary, float>{&Executor::add, 0.75f},
                                  {&Executor::sub, -0.25f},
                                  {&Executor::mul, 0.125f},
                                  {&Executor::div, 0.5f},
                                  {&Executor::min, 0.25f},
                                  {&Executor::max, 0.5f}}) {
    (e.*f)(a, b, c, 3);
    EXPECT_EQ(first(), wanted);
  }
  using Unary = void (Executor::*)(const Buffer&, Buffer&, uint64_t) const;
  for (const auto& [f, wanted] : {std::pair<Unary, double>{&Executor::neg, -0.25},
                                  {&Executor::abs, 0.25},
                                  {&Executor::relu, 0.25},
                                  {&Executor::sigmoid, 0.5621765},
                                  {&Executor::tanh, 0.2449187},
                                  {&Executor::gelu, 0.1496766},
                                  {&Executor::gelu_tanh, 0.1496754},
                                  {&Executor::softmax, 0.2542752}}) {
    (e.*f)(a, c, 3);
    EXPECT_NEAR(first(), wanted, 2e-7);
  }
  e.clip(a, c, 3, 0.3f, 0.6f);
  EXPECT_EQ(c.read<float>(), (std::vector<float>{0.3f, 0.5f, 0.6f}));
  e.scalar_add(a, c, 3, 2);
  EXPECT_EQ(first(), 2.25f);
  e.scalar_mul(a, c, 3, 2);
  EXPECT_EQ(first(), 0.5f);
  e.elementwise("copysign", {&a, &b}, c, 3);
  EXPECT_EQ(first(), 0.25f);
  EXPECT_EQ(e.sum(a, c, 3), 1.5f);
  EXPECT_EQ(e.smallest(a, c, 3), 0.25f);
  EXPECT_EQ(e.largest(a, c, 3), 0.75f);
  EXPECT_NEAR(e.mse_loss(a, b, c, 3), 3 * 0.0625 / 3, 1e-7);
  EXPECT_NEAR(e.cross_entropy_loss(a, b, c, 3), 0.3847053, 1e-6);
  EXPECT_NEAR(e.binary_cross_entropy_loss(a, b, c, 3), 0.6059392, 1e-6);
  hologram::Buffer m = e.buffer(std::vector<float>{1, 2, 3, 4, 5, 6}), r = e.allocate(2), g = e.allocate(4);
  e.matvec(m, e.buffer(std::vector<float>{1, 1, 1}), r, 2, 3);
  EXPECT_EQ(r.read<float>(), (std::vector<float>{6, 15}));
  e.gemm(m, m, g, 2, 2, 3);
  EXPECT_EQ(g.read<float>(), (std::vector<float>{22, 28, 49, 64}));
  r.fill(3);
  EXPECT_EQ(r.read<float>(), (std::vector<float>{3, 3}));
  EXPECT_EQ(g.slice(1, 2).read<float>(), (std::vector<float>{28, 49}));
  hologram::Tensor left = m.tensor({2, 3}), into = g.tensor({2, 2});
  into.gemm(left, left.transpose(), 2, -1);
  EXPECT_EQ(into.read<float>(), (std::vector<float>{28 - 22, 64 - 28, 64 - 49, 154 - 64}));
  EXPECT_GT(e.stats().kernel_calls, 20u);
}

TEST_P(Cpp, ArchivesAreOpenedCalledAndReplaced) {
  const uint64_t before = live();
  {
    hologram::Executor executor(GetParam());
    auto archive = hologram::Archive::open(hologram::test::source_file("examples/model.holo").c_str(), true);
    EXPECT_NE(archive.info().find("\"forward\""), std::string::npos);
    const std::string fingerprint = archive.fingerprint();
    archive.verify();
    archive.trust(fingerprint.c_str());
    EXPECT_THROW(archive.trust(std::string(64, '0').c_str()), hologram::Error);
    const hologram::Session session = archive.session();
    session.reset();
    const hologram::Buffer x = executor.buffer(std::vector<float>{1, 2, 3, 4});
    auto call = [&](const hologram::Executable& method) { return method(x.tensor({2, 2})).at(0).read<float>(); };
    const auto forward = archive.method(executor, "forward");
    EXPECT_EQ(call(forward), (std::vector<float>{0, 3, 0, 7}));
    EXPECT_EQ(call(archive.method(executor, "forward", session)), call(forward));
    const int64_t two = 2;
    const float bias[] = {0, 1};
    archive.replace("0.bias", HOLOGRAM_F32, {&two, 1}, bias);
    EXPECT_EQ(call(forward), (std::vector<float>{0, 4, 0, 8}));
    EXPECT_THROW(archive.replace("none", HOLOGRAM_F32, {&two, 1}, bias), hologram::Error);
    EXPECT_THROW((void)archive.method(executor, "none"), hologram::Error);
    const auto missing = hologram::status::Archive::open("/nowhere.holo");
    EXPECT_EQ(missing.status().code(), HOLOGRAM_NOT_FOUND);
  }
  EXPECT_EQ(live(), before);
}

TEST(CppViews, AreOfTheHostsMemoryAlone) {
  hologram::Executor host, device("null");
  hologram::Buffer seen = host.buffer(std::vector<float>{1, 2}), hidden = device.buffer(std::vector<float>{1, 2});
  seen.view<float>()[1] = 3;
  EXPECT_EQ(seen.read<float>(), (std::vector<float>{1, 3}));
  try {
    (void)hidden.view<float>();
    FAIL() << "a view of memory that nobody can read";
  } catch (const hologram::Error& e) {
    EXPECT_EQ(e.code(), HOLOGRAM_UNSUPPORTED);
    EXPECT_NE(std::string(e.what()).find("not the host's"), std::string::npos) << e.what();
  }
}

TEST_P(Cpp, GraphsFromOperators) {
  hologram::Executor e(GetParam());
  hologram::Executable f;
  {
    hologram::Graph first(1);
    auto x = first.parameter(HOLOGRAM_F32, "[s0]");
    hologram::Graph g = std::move(first);
    auto two = g.constant(HOLOGRAM_F32, 2);
    g.output(-x * two + x / two);
    f = g.compile(e);
  }
  for (int64_t n : {1, 4}) {
    auto results = f(e.buffer(std::vector<float>(static_cast<size_t>(n), 8.0f)).tensor({n}));
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results[0].read<float>(), std::vector<float>(static_cast<size_t>(n), -12.0f));
  }
}

}  // namespace
