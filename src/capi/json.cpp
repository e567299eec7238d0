// capi/json.cpp: JSON arrays of numbers.
#include "capi/json.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "ir/scalar.h"

namespace hologram::capi {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  [[noreturn]] void error(std::string_view expected) const {
    fail(ErrorCode::invalid_argument, "JSON, position {}: expected {}", at_, expected);
  }
  bool take(char c) {
    spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void need(char c, std::string_view what) {
    if (!take(c)) error(what);
  }
  void end() {
    spaces();
    if (at_ != text_.size()) error("the end of the text");
  }

  /// The special values that stand for floats; false when a number follows.
  bool special(double& value) {
    spaces();
    const bool quoted = take(std::string_view("\""));
    const bool negative = take(std::string_view("-Inf"));
    if (negative || take(std::string_view("Inf"))) {
      take(std::string_view("inity"));
      value = negative ? -std::numeric_limits<double>::infinity()
                       : std::numeric_limits<double>::infinity();
    } else if (take(std::string_view("NaN")) || (!quoted && take(std::string_view("null")))) {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (!quoted && take(std::string_view("true"))) {
      value = 1;
    } else if (!quoted && take(std::string_view("false"))) {
      value = 0;
    } else {
      if (quoted) error("NaN, Infinity or -Infinity");
      return false;
    }
    if (quoted && !take(std::string_view("\""))) error("'\"'");
    return true;
  }

  template <class T>
  T number() {
    spaces();
    const char* begin = text_.data() + at_;
    const char* limit = text_.data() + text_.size();
    const char* digits = begin + (begin < limit && *begin == '-');
    if (digits == limit || *digits < '0' || *digits > '9') error("a number");
    if (*digits == '0' && digits + 1 < limit && digits[1] >= '0' && digits[1] <= '9')
      error("a number without leading zeros");
    T value{};
    auto [stop, status] = std::from_chars(begin, limit, value);
    if constexpr (std::is_floating_point_v<T>) {
      if (status == std::errc::result_out_of_range) value = beyond<T>(begin, stop);
    } else if (status == std::errc::result_out_of_range) {
      error("an integer in the range of the dtype");
    }
    if (stop < limit && (*stop == '.' || *stop == 'e' || *stop == 'E'))
      error(std::is_floating_point_v<T> ? "a number" : "an integer");
    at_ = static_cast<size_t>(stop - text_.data());
    return value;
  }

 private:
  void spaces() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  // from_chars does not say whether a number was too large or too small.
  template <class T>
  static T beyond(const char* begin, const char* end) {
    const std::string copy(begin, end);
    if constexpr (sizeof(T) == sizeof(float)) return std::strtof(copy.c_str(), nullptr);
    return static_cast<T>(std::strtod(copy.c_str(), nullptr));
  }

  std::string_view text_;
  size_t at_ = 0;
};

template <class T>
void store(std::byte* out, uint64_t i, T value) {
  std::memcpy(out + i * sizeof(T), &value, sizeof(T));
}
template <class T>
T load(const std::byte* data, uint64_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void read_float(Reader& in, std::byte* out, uint64_t i) {
  double special = 0;
  store(out, i, in.special(special) ? static_cast<T>(special) : in.number<T>());
}

void read_element(Reader& in, DType dtype, std::byte* out, uint64_t i) {
  switch (dtype) {
    case DType::f32:
      return read_float<float>(in, out, i);
    case DType::f64:
      return read_float<double>(in, out, i);
    case DType::f16:
    case DType::bf16: {
      double value = 0;
      if (!in.special(value)) value = in.number<double>();
      return store(out, i, static_cast<uint16_t>(ir::bits_of(dtype, value)));
    }
    case DType::b8: {
      double value = 0;
      if (!in.special(value)) value = in.number<uint8_t>();
      return store(out, i, static_cast<uint8_t>(value != 0));
    }
    case DType::u8:
      return store(out, i, in.number<uint8_t>());
    case DType::i8:
      return store(out, i, in.number<int8_t>());
    case DType::u16:
      return store(out, i, in.number<uint16_t>());
    case DType::i16:
      return store(out, i, in.number<int16_t>());
    case DType::u32:
      return store(out, i, in.number<uint32_t>());
    case DType::i32:
      return store(out, i, in.number<int32_t>());
    case DType::u64:
      return store(out, i, in.number<uint64_t>());
    case DType::i64:
      return store(out, i, in.number<int64_t>());
    case DType::host:
      break;
  }
  fail(ErrorCode::internal, "internal error in read_element");
}

template <class T>
void write_number(std::string& out, T value) {
  char text[64];
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) {
      out += "NaN";
      return;
    }
    if (std::isinf(value)) {
      out += value < 0 ? "-Infinity" : "Infinity";
      return;
    }
  }
  const auto result = std::to_chars(text, text + sizeof text, value);
  out.append(text, result.ptr);
}

void write_element(std::string& out, DType dtype, const std::byte* data, uint64_t i) {
  switch (dtype) {
    case DType::f32:
      return write_number(out, load<float>(data, i));
    case DType::f64:
      return write_number(out, load<double>(data, i));
    case DType::f16:
    case DType::bf16:
      return write_number(out, static_cast<float>(ir::as_double(dtype, load<uint16_t>(data, i))));
    case DType::b8:
    case DType::u8:
      return write_number(out, load<uint8_t>(data, i));
    case DType::i8:
      return write_number(out, load<int8_t>(data, i));
    case DType::u16:
      return write_number(out, load<uint16_t>(data, i));
    case DType::i16:
      return write_number(out, load<int16_t>(data, i));
    case DType::u32:
      return write_number(out, load<uint32_t>(data, i));
    case DType::i32:
      return write_number(out, load<int32_t>(data, i));
    case DType::u64:
      return write_number(out, load<uint64_t>(data, i));
    case DType::i64:
      return write_number(out, load<int64_t>(data, i));
    case DType::host:
      break;
  }
  fail(ErrorCode::internal, "internal error in write_element");
}

}  // namespace

void parse_elements(std::string_view json, DType dtype, uint64_t length, std::byte* out) {
  Reader in(json);
  in.need('[', "'['");
  uint64_t count = 0;
  if (!in.take(']')) {
    do {
      if (count == length) in.error(fmt::format("']' after {} numbers", length));
      read_element(in, dtype, out, count++);
    } while (in.take(','));
    in.need(']', "',' or ']'");
  }
  in.end();
  require(count == length, "the array has {} numbers, the buffer {} elements", count, length);
}

std::string write_elements(DType dtype, uint64_t length, const std::byte* data) {
  std::string out = "[";
  for (uint64_t i = 0; i < length; ++i) {
    if (i != 0) out += ", ";
    write_element(out, dtype, data, i);
  }
  return out += "]";
}

std::vector<int64_t> parse_integers(std::string_view json, size_t limit) {
  Reader in(json);
  std::vector<int64_t> values;
  in.need('[', "'['");
  if (!in.take(']')) {
    do {
      if (values.size() == limit) in.error(fmt::format("at most {} numbers", limit));
      values.push_back(in.number<int64_t>());
    } while (in.take(','));
    in.need(']', "',' or ']'");
  }
  in.end();
  return values;
}

std::string write_integers(const std::vector<int64_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

}  // namespace hologram::capi
