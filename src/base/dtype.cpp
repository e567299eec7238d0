// base/dtype.cpp: names and sizes of element types.
#include "base/dtype.h"

#include <array>

namespace hologram {
namespace {

struct Row {
  std::string_view name;
  int size;
};

constexpr std::array<Row, num_dtypes> rows = {{{"b8", 1},
                                               {"u8", 1},
                                               {"i8", 1},
                                               {"i16", 2},
                                               {"i32", 4},
                                               {"i64", 8},
                                               {"f16", 2},
                                               {"bf16", 2},
                                               {"f32", 4},
                                               {"f64", 8},
                                               {"u16", 2},
                                               {"u32", 4},
                                               {"u64", 8},
                                               {"host", 0}}};

}  // namespace

int size_of(DType t) { return rows[static_cast<size_t>(t)].size; }

std::string_view name_of(DType t) { return rows[static_cast<size_t>(t)].name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace hologram
