// base/settings.cpp: the table of environment variables, and reading it.
#include "base/settings.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/notices.h"

namespace hologram::settings {
namespace {

constexpr Setting all[] = {
    {.name = "HOLOGRAM_CACHE_DIR",
     .kind = Kind::path,
     .fallback = "`hologram` in the user's cache",
     .meaning = "folder of kernels and of archives' packed weights"},
    {.name = "HOLOGRAM_CACHE_LIMIT",
     .kind = Kind::size,
     .fallback = "1G",
     .meaning = "bytes of that folder"},
    {.name = "HOLOGRAM_POOL_LIMIT",
     .kind = Kind::size,
     .fallback = "a quarter of the memory",
     .meaning = "bytes of cached memory for results"},
    {.name = "HOLOGRAM_POOL_IDLE",
     .kind = Kind::seconds,
     .fallback = "1",
     .meaning = "how long it, and most of what is packed of weights, may be unused; off: for ever"},
    {.name = "HOLOGRAM_TRUSTED",
     .kind = Kind::path,
     .fallback = "in the user's configuration",
     .meaning = "list of the archives whose machine code runs; off: none"},
    {.name = "HOLOGRAM_NUM_THREADS",
     .kind = Kind::count,
     .fallback = "as many as PyTorch uses",
     .meaning = "threads of a call",
     .low = 1,
     .high = 1 << 20},
    {.name = "HOLOGRAM_BACKEND",
     .kind = Kind::name,
     .fallback = "cpu",
     .meaning = "backend that runs compiled graphs of tensors on the host"},
    {.name = "HOLOGRAM_AUTO",
     .kind = Kind::list,
     .fallback = "cpu",
     .meaning = "backends of `auto`: the first one with a device",
     .words = "cpu cuda webgpu metal vulkan interp null"},
    {.name = "HOLOGRAM_CPU_ISA",
     .kind = Kind::choice,
     .fallback = "the best one here",
     .meaning = "instruction set; `amx` is AVX-512 with tile products",
     .words = "sse42 avx2 avx512 amx neon"},
    {.name = "HOLOGRAM_CPU_MODEL",
     .kind = Kind::name,
     .fallback = "this processor",
     .meaning = "row of the [table](docs/processors.md) by which instructions are chosen"},
    {.name = "HOLOGRAM_CPU_TERMS",
     .kind = Kind::choice,
     .fallback = "measured",
     .meaning = "which float32 products may be sums of bfloat16 products on AMX",
     .words = "measured model never",
     .off = "never"},
    {.name = "HOLOGRAM_CPU_ATTENTION",
     .kind = Kind::choice,
     .fallback = "measured",
     .meaning = "AMX attention where it was measured to be faster, or everywhere",
     .words = "measured tiles"},
    {.name = "HOLOGRAM_CPU_TILE_PREFETCH",
     .kind = Kind::on_off,
     .fallback = "on",
     .meaning = "whether AMX kernels prefetch, for comparisons"},
    {.name = "HOLOGRAM_CUDA_DRIVER",
     .kind = Kind::path,
     .fallback = "`libcuda.so.1`",
     .meaning = "NVIDIA's driver library; off: there is no GPU"},
    {.name = "HOLOGRAM_CUDA_ASSEMBLER",
     .kind = Kind::path,
     .fallback = "the newest one found",
     .meaning = "`ptxas` for GPUs; `driver` or off: the driver's own",
     .off = "driver"},
    {.name = "HOLOGRAM_CUDA_SYNC",
     .kind = Kind::on_off,
     .fallback = "off",
     .meaning = "calls on GPUs end with their work, so that each tells of its own faults"},
    {.name = "HOLOGRAM_CUDA_WITNESS",
     .kind = Kind::on_off,
     .fallback = "on",
     .meaning =
         "whether kernels of [doubtful assemblers](docs/cuda.md#assemblers) are tried first"},
    {.name = "HOLOGRAM_CUDA_BLOCK",
     .kind = Kind::count,
     .fallback = "256",
     .meaning = "threads of a point kernel's block on GPUs",
     .low = 32,
     .high = 1024,
     .step = 32},
    {.name = "HOLOGRAM_CUDA_PRODUCTS",
     .kind = Kind::choice,
     .fallback = "PyTorch's until measured",
     .meaning = "[who computes](docs/cuda.md#pytorch) products of CUDA tensors",
     .words = "own pytorch",
     .off = "pytorch"},
    {.name = "HOLOGRAM_WEBGPU_LIBRARY",
     .kind = Kind::path,
     .fallback = "of PyPI's `wgpu` or the system's",
     .meaning = "[wgpu-native](docs/webgpu.md); off: there is no adapter"},
    {.name = "HOLOGRAM_WEBGPU_STAGING",
     .kind = Kind::on_off,
     .fallback = "off",
     .meaning = "the host's and the adapter's memory are taken for two where they are one"},
    {.name = "HOLOGRAM_WEBGPU_SUBGROUPS",
     .kind = Kind::choice,
     .fallback = "on GPUs",
     .meaning = "when kernels use [subgroups](docs/webgpu.md#subgroups)",
     .words = "always never",
     .off = "never"},
    {.name = "HOLOGRAM_REPRODUCIBLE",
     .kind = Kind::on_off,
     .fallback = "off",
     .meaning = "the same bits on every instruction set and thread count"},
    {.name = "HOLOGRAM_AUTOGRAD_CACHE",
     .kind = Kind::on_off,
     .fallback = "off",
     .meaning = "PyTorch's cache on disk keeps what it traces (option `cache`)"},
    {.name = "HOLOGRAM_STRICT",
     .kind = Kind::on_off,
     .fallback = "off",
     .meaning = "raise when compiling a graph fails, instead of warning"},
    {.name = "HOLOGRAM_DUMP",
     .kind = Kind::list,
     .fallback = "none",
     .meaning = "stages of compiled graphs to show",
     .words = "fx graph plan atlas llvm asm ptx sass wgsl"},
    {.name = "HOLOGRAM_DUMP_DIR",
     .kind = Kind::path,
     .fallback = "standard error",
     .meaning = "folder for them, made if it is not there"},
    {.name = "HOLOGRAM_LOG",
     .kind = Kind::choice,
     .fallback = "as `logging` is set up",
     .meaning = "the least level that goes to standard error",
     .words = "debug info warning error critical"},
};

// What the build and the tests of this project read, and is no setting of the library.
constexpr std::string_view of_tools[] = {
    "HOLOGRAM_COMPILES",       "HOLOGRAM_CUBINS",         "HOLOGRAM_EXERCISES",
    "HOLOGRAM_EXHAUSTIVE",     "HOLOGRAM_FUZZ",           "HOLOGRAM_FUZZ_FIRST",
    "HOLOGRAM_FUZZ_GRAPHS",    "HOLOGRAM_MISUSE_CALLS",   "HOLOGRAM_MISUSE_SEED",
    "HOLOGRAM_OPINFO",         "HOLOGRAM_MISUSE_VERBOSE", "HOLOGRAM_OPINFO_DRAWN",
    "HOLOGRAM_ONNX",           "HOLOGRAM_ONNX_SEED",      "HOLOGRAM_OPINFO_SEED",
    "HOLOGRAM_ORACLE",         "HOLOGRAM_PROGRAMS",       "HOLOGRAM_PROGRAMS_SEED",
    "HOLOGRAM_PTXAS",          "HOLOGRAM_SKIP_SYSTEM",    "HOLOGRAM_SOAK",
    "HOLOGRAM_SOURCE",         "HOLOGRAM_STEPS",          "HOLOGRAM_STRESS_SEED",
    "HOLOGRAM_STRESS_SECONDS", "HOLOGRAM_WHEEL",
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool one_of(std::string_view words, std::string_view word) {
  return !word.empty() && word.find_first_of(" ") == word.npos &&
         fmt::format(" {} ", words).find(fmt::format(" {} ", word)) != std::string::npos;
}

bool is_off(std::string_view text) { return one_of("no off false 0", lower(text)); }

const Setting& find(std::string_view name) {
  const auto* at = std::ranges::find(all, name, &Setting::name);
  hologram::check(at != std::end(all), "settings: a variable that is in no table");
  return *at;
}

// Paths that bindings have found, by name.
struct Offers {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> paths;
  static Offers& all() {
    static auto* const offers = new Offers;
    return *offers;
  }
};

std::optional<std::string> value_of(const Setting& s) {
  const char* text = std::getenv(s.name.data());
  if (text && *text) return text;
  if (s.kind != Kind::path) return std::nullopt;
  Offers& offers = Offers::all();
  std::lock_guard lock(offers.mutex);
  const auto at = offers.paths.find(s.name);
  return at == offers.paths.end() ? std::nullopt : std::optional(at->second);
}

std::optional<uint64_t> parsed(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

// "123", "64K", "512M", "2G".
std::optional<uint64_t> bytes_of(std::string_view text) {
  const size_t suffix = text.find_first_of("KMG");
  const int shift = suffix == text.npos   ? 0
                    : text[suffix] == 'K' ? 10
                    : text[suffix] == 'M' ? 20
                                          : 30;
  if (suffix != text.npos && suffix + 1 != text.size()) return std::nullopt;
  const auto value = parsed(text.substr(0, suffix));
  if (!value || *value > UINT64_MAX >> shift) return std::nullopt;
  return *value << shift;
}

// "a, b or c".
std::string joined(std::string_view words, std::string_view last_word = "or") {
  std::string out;
  for (std::string_view rest = words; !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    const bool last = end == rest.size();
    out += fmt::format("{}{}",
                       out.empty() ? ""
                       : last      ? fmt::format(" {} ", last_word)
                                   : ", ",
                       rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

void read(const Setting& s) {
  switch (s.kind) {
    case Kind::on_off:
      is_on(s.name);
      break;
    case Kind::size:
    case Kind::count:
      number(s.name);
      break;
    case Kind::seconds:
      seconds(s.name);
      break;
    case Kind::list:
      list(s.name);
      break;
    case Kind::choice:
    case Kind::path:
    case Kind::name:
      text(s.name);
  }
}

// How many letters differ, are missing or are too many.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

void notice_unknown(std::string_view name) {
  if (std::ranges::find(all, name, &Setting::name) != std::end(all) ||
      std::ranges::find(of_tools, name) != std::end(of_tools) ||
      name.starts_with("HOLOGRAM_TEST_") || name.starts_with("HOLOGRAM_SPY_"))
    return;
  const auto& nearest =
      *std::ranges::min_element(all, {}, [&](const Setting& s) { return distance(name, s.name); });
  notice(
      fmt::format("the environment variable {} is unknown and has no effect; the nearest that "
                  "Hologram knows is {}",
                  name, nearest.name));
}

}  // namespace

std::span<const Setting> table() { return all; }

std::string expected(const Setting& s) {
  switch (s.kind) {
    case Kind::on_off:
      return "on or off";
    case Kind::choice:
      return joined(s.words);
    case Kind::size:
      return "bytes, perhaps with K, M or G";
    case Kind::count:
      return s.step > 1 ? fmt::format("a multiple of {} from {} to {}", s.step, s.low, s.high)
                        : fmt::format("a whole number from {} on", s.low);
    case Kind::seconds:
      return "seconds";
    case Kind::path:
      return "a path, or off";
    case Kind::list:
      return fmt::format("some of {}", joined(s.words, "and"));
    case Kind::name:
      break;
  }
  return "a name";
}

void refuse(std::string_view name, std::string_view expected) {
  fail(ErrorCode::invalid_argument, "{}={}: expected {}", name, value_of(find(name)).value_or(""),
       expected);
}

bool is_on(std::string_view name) {
  const Setting& s = find(name);
  const auto value = value_of(s);
  if (!value) return s.fallback == "on";
  if (is_off(*value)) return false;
  if (!one_of("yes on true 1", lower(*value))) refuse(name, expected(s));
  return true;
}

std::optional<std::string> text(std::string_view name) {
  const Setting& s = find(name);
  auto value = value_of(s);
  if (value && is_off(*value)) {
    if (s.off.empty() && s.kind != Kind::path) return std::nullopt;
    return std::string(s.off);
  }
  if (value && s.kind == Kind::choice) {
    value = lower(*value);
    if (!one_of(s.words, *value)) refuse(name, expected(s));
  }
  return value;
}

void offer(std::string_view name, std::string path) {
  hologram::check(find(name).kind == Kind::path, "settings: an offer that is no path");
  Offers& offers = Offers::all();
  std::lock_guard lock(offers.mutex);
  offers.paths[std::string(name)] = std::move(path);
}

std::optional<uint64_t> number(std::string_view name) {
  const Setting& s = find(name);
  const auto value = value_of(s);
  if (!value) return std::nullopt;
  if (is_off(*value)) return s.kind == Kind::size ? std::optional(uint64_t{0}) : std::nullopt;
  const auto n = s.kind == Kind::size ? bytes_of(*value) : parsed(*value);
  if (!n || *n < s.low || *n > s.high || *n % s.step != 0) refuse(name, expected(s));
  return n;
}

std::optional<double> seconds(std::string_view name) {
  constexpr double longest = 1e6;
  const Setting& s = find(name);
  const auto value = value_of(s);
  if (!value) return std::nullopt;
  if (is_off(*value)) return 0.0;
  char* end = nullptr;
  const double n = std::strtod(value->c_str(), &end);
  if (*end != '\0' || !(n >= 0 && n <= longest)) refuse(name, expected(s));
  return n;
}

std::vector<std::string> list(std::string_view name) {
  const Setting& s = find(name);
  const std::string value = lower(value_of(s).value_or(""));
  std::vector<std::string> out;
  if (is_off(value)) return out;
  for (std::string_view rest = value; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (word.empty()) continue;
    if (!one_of(s.words, word)) refuse(name, expected(s));
    out.emplace_back(word);
  }
  return out;
}

void check() {
  for (const Setting& s : all) read(s);
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view line = *entry;
    const std::string_view name = line.substr(0, line.find('='));
    if (name.starts_with("HOLOGRAM_")) notice_unknown(name);
  }
}

std::string foreign(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

}  // namespace hologram::settings
