// tests/capi/archive_test.cpp: models in files: opened, called, with state, damaged, misused.
#include "archive/archive.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "archive/precompile.h"
#include "archive/writer.h"
#include "backend/registry.h"
#include "ir/graph.h"
#include "support.h"

namespace hologram::test {
namespace {

class Archives : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    path_ = std::filesystem::temp_directory_path() / ("hologram-archive-" + std::to_string(::getpid()) + "-" + backend() + ".holo");
  }
  void TearDown() override {
    std::filesystem::remove(path_);
    DeviceTest::TearDown();
  }

  /// Methods "scale", rows * weight for any number of rows, and "count", which adds to its state.
  void write(const std::vector<std::string>& isas = {}) {
    archive::Writer writer(path_, "test");
    const auto bytes = [](const std::vector<float>& v) { return std::as_bytes(std::span(v)); };
    writer.add_tensor({.name = "weight", .shape = {3}, .strides = {1}}, bytes({1, 10, 100}));
    writer.add_tensor({.name = "total", .shape = {2}, .strides = {1}, .state = true}, bytes({0, 5}));
    archive::Method scale;
    scale.name = "scale";
    scale.symbols = {{"rows", 1, 100}};
    scale.inputs = scale.results = {{"x", DType::f32, {Expr::symbol(0), 3}}};
    scale.parameters = {{archive::Source::Kind::input, 0}, {archive::Source::Kind::tensor, 0}};
    writer.add_method(scale,
                      "graph(symbols=1, parameters=2)\n"
                      "%0: f32[s0, 3] = parameter index=0 strides=[3, 1]\n"
                      "%1: f32[3] = parameter index=1 strides=[1]\n"
                      "%2: f32[1, 3] = reshape %1\n"
                      "%3: f32[s0, 3] = expand %2\n"
                      "%4: f32[s0, 3] = mul %0, %3\n"
                      "return %4 strides=[3, 1]\n");
    archive::Method count;
    count.name = "count";
    count.inputs = count.results = {{"x", DType::f32, {2}}};
    count.parameters = {{archive::Source::Kind::input, 0}, {archive::Source::Kind::tensor, 1}};
    writer.add_method(count,
                      "graph(symbols=0, parameters=2)\n"
                      "%0: f32[2] = parameter index=0 strides=[1]\n"
                      "%1: f32[2] = parameter index=1 strides=[1]\n"
                      "%2: f32[2] = add %0, %1\n"
                      "return %2 parameter=1\n"
                      "return %2 strides=[1]\n");
    if (!isas.empty()) archive::precompile(writer, *make_backend("cpu"), isas, nullptr);
    writer.finish();
  }
  hologram_handle opened(uint32_t flags = 0) {
    hologram_handle a = made(hologram_archive_open, path_.c_str(), flags);
    return a;
  }
  std::vector<float> call(hologram_handle executable, const std::vector<float>& x, const char* shape) {
    hologram_handle in = 0, out = 0;
    EXPECT_OK(hologram_tensor_from_buffer(buffer(x), shape, &in));
    EXPECT_OK(hologram_executable_run(executable, &in, 1, &out, 1));
    return elements(out);
  }

  std::filesystem::path path_;
};

HOLOGRAM_ON_EVERY_DEVICE(Archives);

TEST_P(Archives, MethodsRunForEverySize) {
  write();
  hologram_handle a = opened(HOLOGRAM_VERIFY), e = made(hologram_archive_method, a, exec, "scale", 0);
  ASSERT_OK(hologram_archive_cleanup(a));  // the executable keeps what it needs
  EXPECT_EQ(call(e, {1, 2, 3}, "[1, 3]"), (std::vector<float>{1, 20, 300}));
  EXPECT_EQ(call(e, {1, 2, 3, 4, 5, 6}, "[2, 3]"), (std::vector<float>{1, 20, 300, 4, 50, 600}));
  hologram_handle in = 0, out = 0;
  ASSERT_OK(hologram_tensor_from_buffer(buffer({1, 2, 3, 4}), "[2, 2]", &in));
  EXPECT_REFUSED(hologram_executable_run(e, &in, 1, &out, 1), HOLOGRAM_INVALID_ARGUMENT, "expected [rows, 3]");
  EXPECT_EQ(out, 0u);
}

TEST_P(Archives, StateIsTheSessions) {
  write();
  hologram_handle a = opened(), first = 0, second = 0, e = 0, f = 0;
  EXPECT_REFUSED(hologram_archive_method(a, exec, "count", 0, &e), HOLOGRAM_INVALID_ARGUMENT, "needs a session");
  ASSERT_OK(hologram_archive_session(a, &first));
  ASSERT_OK(hologram_archive_session(a, &second));
  ASSERT_OK(hologram_archive_method(a, exec, "count", first, &e));
  ASSERT_OK(hologram_archive_method(a, exec, "count", second, &f));
  EXPECT_EQ(call(e, {1, 1}, "[2]"), (std::vector<float>{1, 6}));
  EXPECT_EQ(call(e, {1, 1}, "[2]"), (std::vector<float>{2, 7}));
  EXPECT_EQ(call(f, {1, 1}, "[2]"), (std::vector<float>{1, 6}));
  ASSERT_OK(hologram_session_reset(first));
  EXPECT_EQ(call(e, {1, 1}, "[2]"), (std::vector<float>{1, 6}));
  ASSERT_OK(hologram_session_cleanup(first));
  EXPECT_EQ(call(e, {1, 1}, "[2]"), (std::vector<float>{2, 7})) << "the executable keeps it";
  EXPECT_EQ(hologram_session_reset(first), HOLOGRAM_NOT_FOUND);
}

// Code that is damaged shows whether it would have run.
TEST_P(Archives, CodeRunsWhereTheArchiveIsTrusted) {
  const std::string target = make_backend("cpu")->target(), words = target.substr(4);
  const bool amx = target.find("+amx") != std::string::npos;
  const bool wgsl = std::string_view(backend()) == "webgpu";
  write({wgsl ? "wgsl" : amx ? "amx" : words.substr(0, words.find(' '))});
  hologram_handle a = opened(), e = 0, f = 0;
  const std::string digits = text([&](auto... x) { return hologram_archive_fingerprint(a, x...); });
  EXPECT_EQ(digits.size(), 64u);
  EXPECT_REFUSED(hologram_archive_trust(a, std::string(64, '0').c_str()), HOLOGRAM_CORRUPT, "its fingerprint is " + digits);
  EXPECT_EQ(hologram_archive_trust(a, "0123"), HOLOGRAM_INVALID_ARGUMENT);
  ASSERT_OK(hologram_archive_method(a, exec, "scale", 0, &e));
  ASSERT_OK(hologram_archive_trust(a, digits.c_str()));
  hologram_handle trusted = opened();
  ASSERT_OK(hologram_archive_trust(trusted, nullptr));
  ASSERT_OK(hologram_archive_method(trusted, exec, "scale", 0, &f));
  for (hologram_handle x : {e, f}) EXPECT_EQ(call(x, {1, 2, 3, 4, 5, 6}, "[2, 3]"), (std::vector<float>{1, 20, 300, 4, 50, 600}));
  const archive::Index index = archive::Archive::open(path_)->index();
  ASSERT_FALSE(index.precompiled.empty());
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  for (const archive::Precompiled& p : index.precompiled) {
    file.seekp(static_cast<std::streamoff>(index.sections[p.code].offset));
    file.put('\x7f');
  }
  file.close();
  hologram_handle damaged = opened();
  ASSERT_OK(hologram_archive_method(damaged, exec, "scale", 0, &e));
  EXPECT_EQ(call(e, {1, 2, 3}, "[1, 3]"), (std::vector<float>{1, 20, 300}));
  hologram_handle again = opened();
  ASSERT_OK(hologram_archive_trust(again, digits.c_str()));
  const hologram_status status = hologram_archive_method(again, exec, "scale", 0, &f);
  EXPECT_EQ(status, is_host() || wgsl ? HOLOGRAM_CORRUPT : HOLOGRAM_OK);
}

TEST_P(Archives, CallsReadReplacedWeights) {
  write();
  hologram_handle a = opened(), e = made(hologram_archive_method, a, exec, "scale", 0);
  EXPECT_EQ(call(e, {1, 2, 3}, "[1, 3]"), (std::vector<float>{1, 20, 300}));
  const float weight[] = {2, 3, 4};
  const int64_t three = 3, two = 2;
  ASSERT_OK(hologram_archive_replace(a, "weight", HOLOGRAM_F32, &three, 1, weight));
  EXPECT_EQ(call(e, {1, 2, 3}, "[1, 3]"), (std::vector<float>{2, 6, 12}));
  EXPECT_REFUSED(hologram_archive_replace(a, "weight", HOLOGRAM_F32, &two, 1, weight), HOLOGRAM_INVALID_ARGUMENT,
                 "\"weight\" is f32[3], got f32[2]");
  EXPECT_EQ(hologram_archive_replace(a, "weight", HOLOGRAM_I32, &three, 1, weight), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_REFUSED(hologram_archive_replace(a, "total", HOLOGRAM_F32, &two, 1, weight), HOLOGRAM_INVALID_ARGUMENT, "is state");
  EXPECT_EQ(hologram_archive_replace(a, "none", HOLOGRAM_F32, &two, 1, weight), HOLOGRAM_NOT_FOUND);
  hologram_handle f = made(hologram_archive_method, opened(), exec, "scale", 0);
  EXPECT_EQ(call(f, {1, 2, 3}, "[1, 3]"), (std::vector<float>{1, 20, 300}));
}

TEST_P(Archives, DamagedFilesAreRefused) {
  write();
  std::ifstream file(path_, std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(file)), {});
  hologram_handle a = made(hologram_archive_open_memory, content.data(), content.size(), 0);
  hologram_handle e = made(hologram_archive_method, a, exec, "scale", 0);
  EXPECT_EQ(call(e, {1, 2, 3}, "[1, 3]"), (std::vector<float>{1, 20, 300}));
  EXPECT_EQ(hologram_archive_open_memory(content.data(), content.size() - 1, 0, &a), HOLOGRAM_CORRUPT);
  std::string broken = content;
  broken[64] = static_cast<char>(broken[64] ^ 1);  // of the weight
  EXPECT_EQ(hologram_archive_open_memory(broken.data(), broken.size(), HOLOGRAM_VERIFY, &a), HOLOGRAM_CORRUPT);
  ASSERT_OK(hologram_archive_open_memory(broken.data(), broken.size(), 0, &a));
  EXPECT_REFUSED(hologram_archive_verify(a), HOLOGRAM_CORRUPT, "weight");
  EXPECT_EQ(hologram_archive_open("/nowhere.holo", 0, &a), HOLOGRAM_NOT_FOUND);
  EXPECT_EQ(hologram_archive_open(path_.c_str(), 8, &a), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_archive_open(nullptr, 0, &a), HOLOGRAM_INVALID_ARGUMENT);
}

// What the file says of faults names the operator, and the index where the host can read the input.
TEST_P(Archives, AnIndexOutOfRangeIsNamed) {
  const std::array<std::string, 3> rows[] = {
      // the file's text, what is said, where that is unreadable
      {"embedding,model.table,i,1:0:3;", "embedding of model.table: index 3 is out of range for axis 0 of 3 elements",
       "embedding of model.table: an index was out of range"},
      {"div,,d,0:0:0;take,,w,1:-1:3;", "take: index 3 is out of range for 3 elements", "take: an index was out of range"},
      {"index,a,i;gather,b,i;", "index of a or gather of b: an index was out of range", ""},
      {"index,a,i,7:0:3;", "an index was out of range", ""},
      {"index;,,i;x,y,z,1:", "an index was out of range", ""},
  };
  for (const auto& [faults, cpu, others] : rows) {
    {
      archive::Writer writer(path_, "test");
      archive::Method pick;
      pick.name = "pick";
      pick.symbols = {{"n", 1, 100}};
      pick.inputs = {{"x", DType::f32, {3}}, {"i", DType::i64, {Expr::symbol(0)}}};
      pick.results = {{"y", DType::f32, {Expr::symbol(0)}}};
      pick.parameters = {{archive::Source::Kind::input, 0}, {archive::Source::Kind::input, 1}};
      pick.structure = "{\"faults\": \"" + faults + "\"}";
      writer.add_method(pick,
                        "graph(symbols=1, parameters=2)\n"
                        "%0: f32[3] = parameter index=0 strides=[1]\n"
                        "%1: i64[s0] = parameter index=1 strides=[1]\n"
                        "%2: f32[s0] = take %0, %1 axis=0 batch=0\n"
                        "return %2 strides=[1]\n");
      writer.finish();
    }
    hologram_handle a = opened(), e = 0, out = 0;
    ASSERT_OK(hologram_archive_method(a, exec, "pick", 0, &e));
    const hologram_handle x = buffer({5, 6, 7});
    const hologram_handle in[] = {x, buffer<int64_t>({2, 3, -9}, HOLOGRAM_I64)};
    EXPECT_REFUSED(hologram_executable_run(e, in, 2, &out, 1), HOLOGRAM_INVALID_ARGUMENT, !is_host() && !others.empty() ? others : cpu);
    const hologram_handle right[] = {x, buffer<int64_t>({2, 0}, HOLOGRAM_I64)};
    ASSERT_OK(hologram_executable_run(e, right, 2, &out, 1));
    EXPECT_EQ(elements(out), (std::vector<float>{7, 5}));
    ASSERT_OK(hologram_archive_cleanup(a));
  }
}

TEST_P(Archives, WrongNamesAndHandlesAreErrors) {
  write();
  hologram_handle a = opened(), e = 0, other = 0, session = 0;
  EXPECT_REFUSED(hologram_archive_method(a, exec, "none", 0, &e), HOLOGRAM_NOT_FOUND, R"("scale", "count")");
  EXPECT_EQ(hologram_archive_method(exec, a, "scale", 0, &e), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_archive_method(a, exec, nullptr, 0, &e), HOLOGRAM_INVALID_ARGUMENT);
  ASSERT_OK(hologram_archive_open(path_.c_str(), 0, &other));
  ASSERT_OK(hologram_archive_session(other, &session));
  EXPECT_REFUSED(hologram_archive_method(a, exec, "count", session, &e), HOLOGRAM_INVALID_ARGUMENT, "another archive's");
}

// A session's state goes from call to call, on one stream and the other, on none, and back.
TEST_P(Archives, MethodsAreLeftOnStreams) {
  write();
  hologram_handle a = opened(), session = 0, scale = 0, count = 0, s[2] = {0, 0};
  ASSERT_OK(hologram_archive_session(a, &session));
  ASSERT_OK(hologram_archive_method(a, exec, "scale", 0, &scale));
  ASSERT_OK(hologram_archive_method(a, exec, "count", session, &count));
  for (hologram_handle& stream : s) ASSERT_OK(hologram_stream_create(exec, &stream));
  const hologram_handle rows = buffer({1, 2, 3}), one = buffer({1, 1});
  hologram_handle x = made(hologram_tensor_from_buffer, rows, "[1, 3]");
  std::vector<hologram_handle> results;
  for (int k = 0; k < 20; ++k) {
    hologram_handle out = 0;
    ASSERT_OK(hologram_executable_run_on_stream(count, s[k % 2], &one, 1, &out, 1));
    results.push_back(out);
  }
  hologram_handle scaled = 0, out = 0;
  ASSERT_OK(hologram_executable_run_on_stream(scale, s[0], &x, 1, &scaled, 1));
  ASSERT_OK(hologram_executable_run(count, &one, 1, &out, 1));  // behind those on streams
  EXPECT_EQ(elements(out), (std::vector<float>{21, 26}));
  for (hologram_handle stream : s) ASSERT_OK(hologram_stream_synchronize(stream));
  for (size_t k = 0; k < results.size(); ++k)
    EXPECT_EQ(elements(results[k]), (std::vector<float>{static_cast<float>(k + 1), static_cast<float>(k + 6)}));
  EXPECT_EQ(elements(scaled), (std::vector<float>{1, 20, 300}));
  const float ten[] = {10, 10, 10};
  const int64_t shape[] = {3};
  ASSERT_OK(hologram_archive_replace(a, "weight", HOLOGRAM_F32, shape, 1, ten));
  scaled = 0;
  ASSERT_OK(hologram_executable_run_on_stream(scale, s[1], &x, 1, &scaled, 1));
  ASSERT_OK(hologram_session_reset(session));
  ASSERT_OK(hologram_stream_synchronize(s[1]));
  EXPECT_EQ(elements(scaled), (std::vector<float>{10, 20, 30}));
  out = 0;
  ASSERT_OK(hologram_executable_run_on_stream(count, s[0], &one, 1, &out, 1));
  ASSERT_OK(hologram_stream_synchronize(s[0]));
  EXPECT_EQ(elements(out), (std::vector<float>{1, 6}));
}

}  // namespace
}  // namespace hologram::test
