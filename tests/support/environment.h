// tests/support/environment.h: variables of the environment: numbers that they name, and other values for a time
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

namespace hologram::test {

inline uint64_t number(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// Another value of a variable, or none, until the test ends.
class Setting {
 public:
  explicit Setting(const char* name) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    unsetenv(name);
  }
  Setting(const char* name, const std::string& value) : Setting(name) { set(value); }
  ~Setting() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  void set(const std::string& value) const { setenv(name_, value.c_str(), 1); }

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

}  // namespace hologram::test
