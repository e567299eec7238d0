// archive/faults.cpp: what a call whose data was wrong says, as far as a method's file tells it.
#include "archive/faults.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "atlas/abi.h"
#include "base/error.h"
#include "runtime/executable.h"

namespace hologram::archive {
namespace {

/// What comes before the next `end`, which is taken off; nothing where there is none.
std::optional<std::string_view> taken(std::string_view& text, char end) {
  const size_t at = text.find(end);
  if (at == std::string_view::npos) return {};
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at + 1);
  return part;
}

template <class T>
bool number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<Fault> fault_of(std::string_view record, const Method& method) {
  std::vector<std::string_view> fields;
  std::string_view rest = record;
  while (const auto field = taken(rest, ',')) fields.push_back(*field);
  fields.push_back(rest);
  if (fields.size() < 3 || fields[0].empty() || fields[2].size() != 1) return {};
  Fault fault;
  fault.name = fmt::format("{}{}{}", fields[0], fields[1].empty() ? "" : " of ", fields[1]);
  fault.divides = fields[2] == "d";
  fault.wraps = fields[2] == "w";
  for (size_t i = 3; i < fields.size(); ++i) {
    std::string_view text = fields[i];
    const auto input = taken(text, ':'), axis = taken(text, ':');
    Fault::Look look;
    if (!input || !axis || !number(*input, look.input) || !number(*axis, look.axis) ||
        !number(text, look.size) || look.input >= method.inputs.size() || look.size < 0)
      return {};
    fault.looks.push_back(look);
  }
  return fault;
}

/// The first element for which `wrong` holds.
template <class Wrong>
std::optional<int64_t> first(DType dtype, const void* data, int64_t count, const Wrong& wrong) {
  const auto search = [&]<class T>(T) -> std::optional<int64_t> {
    const T* values = static_cast<const T*>(data);
    for (int64_t i = 0; i < count; ++i)
      if (wrong(static_cast<int64_t>(values[i]))) return static_cast<int64_t>(values[i]);
    return {};
  };
  switch (dtype) {
    case DType::u8:
      return search(uint8_t{});
    case DType::i8:
      return search(int8_t{});
    case DType::i16:
      return search(int16_t{});
    case DType::i32:
      return search(int32_t{});
    case DType::i64:
      return search(int64_t{});
    default:
      return {};
  }
}

std::string found(const Fault& fault, const Method& method, std::span<const void* const> inputs,
                  std::span<const int64_t> symbols) {
  for (const Fault::Look& look : fault.looks) {
    const Signature& input = method.inputs[look.input];
    int64_t count = 1;
    for (const Expr& e : input.shape) count *= e.eval(symbols);
    const auto wrong = [&](int64_t n) {
      return fault.divides ? n == 0 : n >= look.size || n < (fault.wraps ? -look.size : 0);
    };
    const auto value = first(input.dtype, inputs[look.input], count, wrong);
    if (!value) continue;
    if (fault.divides) return fault.name + ": an integer was divided by zero";
    if (look.axis < 0)
      return fmt::format("{}: index {} is out of range for {} elements", fault.name, *value,
                         look.size);
    return fmt::format("{}: index {} is out of range for axis {} of {} elements", fault.name,
                       *value, look.axis, look.size);
  }
  return {};
}

}  // namespace

std::vector<Fault> faults_of(const Method& method) {
  constexpr std::string_view key = "\"faults\": \"";
  const size_t at = method.structure.find(key);
  if (at == std::string::npos) return {};
  std::string_view text = std::string_view(method.structure).substr(at + key.size());
  text = text.substr(0, text.find('"'));
  std::vector<Fault> out;
  while (const auto record = taken(text, ';'))
    if (auto fault = fault_of(*record, method)) out.push_back(std::move(*fault));
  return out;
}

void raise_faults(int32_t faults, const Method& method, std::span<const void* const> inputs,
                  std::span<const int64_t> symbols) {
  if (faults == 0) return;
  const bool divides = !(faults & atlas::index_out_of_range);
  const ErrorCode code = divides ? ErrorCode::division_by_zero : ErrorCode::invalid_argument;
  std::string unknown;
  for (const Fault& fault : faults_of(method)) {
    if (fault.divides != divides) continue;
    if (inputs.size() == method.inputs.size())
      if (const std::string said = found(fault, method, inputs, symbols); !said.empty())
        fail(code, "{}: {}", method.name, said);
    if ((fault.looks.empty() || inputs.empty()) && unknown.find(fault.name) == std::string::npos)
      unknown += (unknown.empty() ? "" : " or ") + fault.name;
  }
  if (!unknown.empty())
    fail(code, "{}: {}: {}", method.name, unknown,
         divides ? "an integer was divided by zero" : "an index was out of range");
  runtime::raise_faults(faults);
}

}  // namespace hologram::archive
