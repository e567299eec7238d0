// tests/capi/misuse.h: random calls of every function of the C interface.
#pragma once

#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "hologram/hologram.h"

namespace hologram::test {

/// Calls functions with handles that are right, stale, of another kind or made up, with sizes at
/// the edges and beyond, with null pointers and with texts of all sorts. What a caller must not do
/// in C is left out: pointers to less memory than the call says, and made-up addresses.
class Misuse {
 public:
  /// Bytes of linear memory per executor: what a call may work on.
  static constexpr uint64_t limit = 4 << 20;

  Misuse(uint64_t seed, const char* backend) : random_(seed), backend_(backend) {
    for (char& c : bytes_) c = static_cast<char>(random_());
    for (hologram_handle& e : executors_) e = new_executor();
  }

  /// One call with random arguments; handles that it gives take part from then on.
  template <class Result, class... Args>
  void call(const char* name, Result (*function)(Args...)) {
    after_pointer_ = false;
    position_ = 0;
    const std::string_view text = name;
    first_is_executor_ =
        std::is_same_v<std::tuple_element_t<0, std::tuple<Args..., int>>, uint64_t> && sizeof...(Args) > 1 && takes_executor(text) ? 7 : 1;
    wanted_ =
        text.starts_with("hologram_tensor_") && !text.starts_with("hologram_tensor_from") && !text.starts_with("hologram_tensor_create") ? 3
        : text.starts_with("hologram_graph_")                                                                                            ? 4
        : text.starts_with("hologram_executable_")                                                                                       ? 5
        : text.starts_with("hologram_stream_")                                                                                           ? 8
        : text.starts_with("hologram_event_")                                                                                            ? 9
                                              : 2;
    std::tuple<Args...> arguments{make<Args>()...};
    if constexpr (std::is_same_v<Result, hologram_status>)
      judge(name, std::apply(function, arguments));
    else
      std::apply(function, arguments);
    keep(std::exchange(results_[0], 0));
  }

  /// What needs more than random arguments: each pairs calls, or bounds what one may use.
  void pairs() {
    switch (random_() % 8) {
      case 0:
        judge("hologram_executor_cleanup", hologram_executor_cleanup(random_() % 128 ? random_() : executor()));
        for (hologram_handle& e : executors_)
          if (hologram_synchronize(e) != HOLOGRAM_OK) e = new_executor();
        break;
      case 1:
        judge("hologram_executor_set_memory_limit", hologram_executor_set_memory_limit(executor(), random_() % (limit + 1)));
        break;
      case 2: {
        hologram_handle out = 0;
        uint8_t copied = 0;
        const uint64_t length = random_() % 9 ? random_() % 128 : ~uint64_t{0} - random_() % 64;
        judge("hologram_executor_wrap", hologram_executor_wrap(executor(), dtype(), bytes_.data() + random_() % 16, length, nullptr,
                                                               nullptr, some(&copied), some(&out)));
        keep(out);
        break;
      }
      case 3: {
        void *data = nullptr, *view = nullptr;
        uint64_t size = 0;
        judge("hologram_buffer_export", hologram_buffer_export(any(), some(&data), &size, &view));
        if (view) views_.push_back(view);
        break;
      }
      case 4:
        if (!views_.empty()) {
          judge("hologram_view_release", hologram_view_release(views_.back()));
          views_.pop_back();
        }
        break;
      case 5:
      case 6: {
        const bool versioned = random_() % 2 == 0;
        uint64_t managed = 0;
        judge(versioned ? "hologram_tensor_to_dlpack_versioned" : "hologram_tensor_to_dlpack",
              (versioned ? hologram_tensor_to_dlpack_versioned : hologram_tensor_to_dlpack)(executor(), any(), &managed));
        if (managed == 0) break;
        hologram_handle out = 0;
        uint8_t copied = 0;
        hologram_handle taker = 0;  // one that takes it, so that nothing leaks
        if (hologram_new_executor_with_backend(backend_, &taker) != HOLOGRAM_OK) break;
        judge(versioned ? "hologram_tensor_from_dlpack_versioned" : "hologram_tensor_from_dlpack",
              (versioned ? hologram_tensor_from_dlpack_versioned : hologram_tensor_from_dlpack)(taker, managed, &copied, &out));
        hologram_executor_cleanup(taker);
        keep(out);
        break;
      }
      default: {
        size_t needed = 0;
        hologram_handle out = 0;
        uint8_t copied = 0;
        judge("hologram_tensor_from_dlpack_capsule", hologram_tensor_from_dlpack_capsule(executor(), 0, bytes_.data(), 64, &needed));
        judge("hologram_tensor_from_dlpack", hologram_tensor_from_dlpack(executor(), 0, &copied, &out));
        if (random_() % 512 == 0) {
          judge("hologram_clear_all_registries", hologram_clear_all_registries());
          for (hologram_handle& e : executors_) e = new_executor();
        }
      }
    }
  }

  uint64_t random() { return random_(); }
  std::map<std::string_view, uint64_t> succeeded, failed;  ///< calls by function
  std::vector<std::string> odd;                            ///< what should not have been answered

  ~Misuse() {
    for (void* view : views_) hologram_view_release(view);
    hologram_clear_all_registries();
  }
  Misuse(const Misuse&) = delete;
  Misuse& operator=(const Misuse&) = delete;

 private:
  void judge(const char* name, hologram_status status) {
    (status == HOLOGRAM_OK ? succeeded : failed)[name] += 1;
    const std::string message = hologram_last_error();
    if (status < HOLOGRAM_OK || status > HOLOGRAM_SHORT_BUFFER || status == HOLOGRAM_INTERNAL)
      odd.push_back(std::string(name) + ": " + std::to_string(status) + " " + message);
    else if (status != HOLOGRAM_OK && !message.starts_with(name + std::string(": ")) &&
             !std::string_view(name).starts_with("hologram_last_error"))
      odd.push_back(std::string(name) + " fails without a message of its own: " + message);
  }

  static bool takes_executor(std::string_view name) {
    for (std::string_view one : {"hologram_buffer_length", "hologram_buffer_size", "hologram_buffer_element", "hologram_buffer_dtype",
                                 "hologram_buffer_executor", "hologram_buffer_is", "hologram_buffer_pool", "hologram_buffer_class",
                                 "hologram_tensor_", "hologram_graph_", "hologram_executable_", "hologram_stream_", "hologram_event_"})
      if (name.starts_with(one))
        return name.ends_with("contiguous") || name.ends_with("reshape") || name.ends_with("matmul") || name.ends_with("gemm") ||
               name.ends_with("compile") || name == "hologram_stream_create" || name == "hologram_stream_from_native" ||
               name == "hologram_event_create";
    return true;
  }

  hologram_handle new_executor() {
    hologram_handle e = 0;
    hologram_new_executor_with_backend(backend_, &e);
    hologram_executor_set_memory_limit(e, limit);
    keep(e);
    return e;
  }
  hologram_handle executor() { return random_() % 16 ? executors_[random_() % 16 == 0] : any(); }
  /// A handle, mostly of the kind that the function takes.
  hologram_handle any() {
    const uint64_t chance = random_() % 32;
    if (chance == 0) return random_() % 2 ? random_() : random_() % 2;
    const auto& list = handles_[chance < 28 ? wanted_ : random_() % handles_.size()];
    if (list.empty()) return 0;
    const hologram_handle h = list[random_() % list.size()];
    return chance == 1 ? h ^ uint64_t { 1 } << (random_() % 64) : h;
  }
  void keep(hologram_handle h) {
    const uint64_t kind = h >> 56;
    if (kind == 0 || kind >= handles_.size()) return;  // no handle: a length, an address
    auto& list = handles_[kind];
    if (list.size() < 24)
      list.push_back(h);
    else
      list[random_() % list.size()] = h;
  }
  uint64_t size() {
    if (random_() % 2) return random_() % 65;
    constexpr uint64_t edges[] = {
        0,         1, 2, 3, 7, 64, 100, 1024, 3072, 3073, 5000, 9999, 100'000, UINT32_MAX, uint64_t{1} << 40, INT64_MAX, uint64_t{1} << 62,
        UINT64_MAX};
    return edges[random_() % std::size(edges)];
  }
  hologram_dtype dtype() { return random_() % 2 ? HOLOGRAM_F32 : static_cast<hologram_dtype>(random_() % 16); }
  /// The pointer, or sometimes none.
  template <class T>
  T* some(T* pointer) {
    return random_() % 24 ? pointer : nullptr;
  }

  template <class T>
  T make() {
    const bool count = std::exchange(after_pointer_, false);
    const int position = position_++;
    if constexpr (std::is_same_v<T, const char*>) {
      return some(texts_[random_() % std::size(texts_)]);
    } else if constexpr (std::is_pointer_v<T> && std::is_function_v<std::remove_pointer_t<T>>) {
      return nullptr;
    } else if constexpr (std::is_pointer_v<T>) {
      after_pointer_ = true;
      return some(room<std::remove_pointer_t<T>>());
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      if (count) return random_() % (few_ ? 9 : bytes_.size());
      if (position == 0) return random_() % 8 < first_is_executor_ ? executor() : any();
      return random_() % 8 < 5 ? any() : size();
    } else if constexpr (std::is_same_v<T, uint32_t> || std::is_same_v<T, int32_t>) {
      return static_cast<T>(random_() % 2 ? random_() % 6 : random_() % 9 ? size() : -size());
    } else if constexpr (std::is_same_v<T, uint8_t>) {
      return static_cast<T>(random_());
    } else if constexpr (std::is_floating_point_v<T>) {
      constexpr T values[] = {0, 1, -1, T(2.5), T(1e30), std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()};
      return values[random_() % std::size(values)];
    } else {
      static_assert(std::is_same_v<T, hologram_dtype>);
      return dtype();
    }
  }

  /// Memory for what a pointer parameter shows.
  template <class T>
  T* room() {
    using Plain = std::remove_const_t<T>;
    few_ = true;
    if constexpr (std::is_void_v<Plain> || std::is_same_v<Plain, char> || std::is_same_v<Plain, uint8_t>) {
      few_ = false;
      return reinterpret_cast<T*>(bytes_.data());
    } else if constexpr (std::is_pointer_v<Plain>) {
      if constexpr (std::is_const_v<std::remove_pointer_t<Plain>>)
        return &const_pointer_;
      else
        return &pointer_;
    } else if constexpr (std::is_same_v<Plain, hologram_statistics>) {
      statistics_.struct_size = random_() % 4 ? sizeof statistics_ : random_() % 16;
      return &statistics_;
    } else if constexpr (std::is_same_v<Plain, uint64_t>) {
      if constexpr (std::is_const_v<T>) {
        for (uint64_t& n : many_) n = any();
        return many_.data();
      } else {
        results_.fill(random_() % 4 ? 0 : any());
        return results_.data();
      }
    } else {
      static_assert(sizeof(Plain) <= 8);
      for (uint64_t& n : many_) n = random_() % 4 ? random_() % 8 : size();
      return reinterpret_cast<T*>(many_.data());
    }
  }

  static constexpr const char* graph_ =
      "graph(symbols=1, parameters=2)\n%0: f32[s0] = parameter index=0 strides=[1]\n"
      "%1: f32[s0] = parameter index=1 strides=[1]\n%2: f32[s0] = add %0, %1\nreturn %2 strides=[1]\n";
  static constexpr const char* texts_[] = {
      "",           "[]",         "[1, 2]",  "[2, 32]",   "[64]",         "[-1]",     "[1e9]",
      "[0, 0]",     "[[",         "[NaN]",   "[1, 0]",    "[4, 4, 4]",    "[8, 8]",   "[1, 64]",
      "[64, 1]",    "[2, 0, 1]",  "cpu",     "CUDA",      "auto",         "add",      "softmax",
      "reduce_min", "reduce_sum", "mul",     "max",       "exp",          "reshape",  "broadcast",
      "permute",    "take",       "scatter", "host_call", "select",       "axes=[0]", "axes=[9]",
      "ints=[0]",   "=[",         "f32[s0]", "f32[2, 2]", "[s0]",         "[s0, s1]", "f32[s9]",
      "f99",        "\xff\xfe",   "debug",   "off",       "{\"a\": [1]}", "[1, 2",    "[9223372036854775807, 2]",
      graph_};

  std::mt19937_64 random_;
  const char* backend_;
  std::array<hologram_handle, 2> executors_{};
  std::array<std::vector<hologram_handle>, 10> handles_;  ///< by kind
  size_t wanted_ = 2;
  uint64_t first_is_executor_ = 1;  ///< of eight
  std::vector<void*> views_;
  alignas(64) std::array<char, 4096> bytes_{};
  alignas(64) std::array<uint64_t, 64> many_{}, results_{};
  void* pointer_ = nullptr;
  const void* const_pointer_ = nullptr;
  hologram_statistics statistics_{};
  bool after_pointer_ = false, few_ = false;
  int position_ = 0;
};

}  // namespace hologram::test
