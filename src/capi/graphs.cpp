// capi/graphs.cpp: the small texts that describe shapes, types and attributes.
#include "capi/graphs.h"

#include <charconv>
#include <map>

#include "ir/scalar.h"

namespace hologram::capi {

constinit HandleTable graphs{Kind::graph,
                             [](void* object) { delete static_cast<GraphObject*>(object); }};
constinit HandleTable executables{
    Kind::executable, [](void* object) { delete static_cast<ExecutableObject*>(object); }};

namespace {

std::string_view trimmed(std::string_view s) {
  const size_t first = s.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(" \t\n") - first + 1);
}

/// The entries of "[a, b, …]".
std::vector<std::string_view> entries(std::string_view text, std::string_view what) {
  text = trimmed(text);
  require(text.size() >= 2 && text.front() == '[' && text.back() == ']',
          "{}: expected a list in brackets, got \"{:.60}\"", what, text);
  text = trimmed(text.substr(1, text.size() - 2));
  std::vector<std::string_view> list;
  if (text.empty()) return list;
  size_t from = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      list.push_back(trimmed(text.substr(from, i - from)));
      from = i + 1;
      continue;
    }
    depth += (text[i] == '(') - (text[i] == ')');
  }
  return list;
}

Shape exprs(std::string_view text, int num_symbols, std::string_view what) {
  Shape shape;
  for (std::string_view e : entries(text, what)) {
    Expr dim = parse_expr(e);
    require(!dim.any_atom([&](const Atom& a) {
      return a.kind == Atom::Kind::symbol && (a.id < 0 || a.id >= num_symbols);
    }),
            "{}: \"{:.40}\" uses a symbol beyond s0…s{}", what, e, num_symbols - 1);
    shape.push_back(std::move(dim));
  }
  require(shape.size() <= max_rank, "{}: at most {} dimensions", what, max_rank);
  return shape;
}

template <class T>
T number(std::string_view text, std::string_view what) {
  text = trimmed(text);
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(status == std::errc{} && end == text.data() + text.size(),
          "{}: expected a number, got \"{:.40}\"", what, text);
  return value;
}

/// name → text of "name=value name=value"; values in brackets or quotes may hold spaces.
std::map<std::string, std::string, std::less<>> assignments(std::string_view text) {
  std::map<std::string, std::string, std::less<>> found;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const size_t equals = text.find('=');
    require(equals != std::string_view::npos && equals > 0,
            "attributes: expected name=value, got \"{:.40}\"", text);
    const std::string name(trimmed(text.substr(0, equals)));
    text = trimmed(text.substr(equals + 1));
    size_t end = 0;
    if (!text.empty() && (text[0] == '[' || text[0] == '"')) {
      end = text.find(text[0] == '[' ? ']' : '"', 1);
      require(end != std::string_view::npos, "attributes: {} has no end", name);
      ++end;
    } else {
      end = std::min(text.find(' '), text.size());
    }
    require(found.emplace(name, text.substr(0, end)).second, "attributes: {} stands twice", name);
    text.remove_prefix(end);
  }
  return found;
}

}  // namespace

Shape parse_shape(const char* text, int num_symbols) {
  require(text != nullptr, "shape must not be NULL");
  return exprs(text, num_symbols, "shape");
}

void parse_type(std::string_view text, int num_symbols, std::optional<DType>& dtype,
                std::optional<Shape>& shape) {
  const size_t bracket = std::min(text.find('['), text.size());
  const std::string_view name = trimmed(text.substr(0, bracket));
  if (!name.empty()) {
    dtype = dtype_from_name(name);
    require(dtype && *dtype != DType::host, "result: \"{:.40}\" is no dtype", name);
  }
  if (bracket != text.size()) shape = exprs(text.substr(bracket), num_symbols, "result");
}

ir::Attrs parse_attributes(ir::Op op, std::string_view text, DType scalars, int num_symbols) {
  ir::Attrs attrs;
  auto given = assignments(text);
  auto take = [&](std::string_view name) {
    auto it = given.find(name);
    require(it != given.end(), "{}: the attribute {} is missing", ir::name_of(op), name);
    std::string value = it->second;
    given.erase(it);
    return value;
  };
  std::string_view rest = ir::info(op).attributes;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    const size_t colon = entry.find(':');
    const std::string_view kind = entry.substr(0, colon);
    std::string_view names = entry.substr(colon + 1);
    if (kind == "ints" && (names == "axes" || names == "steps")) {
      const std::string list = take(names);
      for (std::string_view e : entries(list, names))
        attrs.ints.push_back(number<int64_t>(e, names));
    } else if (kind == "ints") {
      for (; !names.empty(); names.remove_prefix(std::min(names.size(), names.find(',') + 1))) {
        const std::string_view name = names.substr(0, names.find(','));
        // The last ones may be left out where the operation has a usual value.
        if (!attrs.ints.empty() && !given.contains(name)) break;
        attrs.ints.push_back(number<int64_t>(take(name), name));
        if (names.find(',') == std::string_view::npos) break;
      }
    } else if (kind == "exprs") {
      attrs.exprs = exprs(take(names), num_symbols, names);
    } else if (kind == "bits") {
      attrs.bits = is_float(scalars)
                       ? ir::bits_of(scalars, number<double>(take(names), names))
                       : ir::bits_of_integer(scalars, number<int64_t>(take(names), names));
    } else {
      attrs.text = take(names);
    }
  }
  require(given.empty(), "{} has no attribute {}", ir::name_of(op),
          given.empty() ? "" : given.begin()->first);
  return attrs;
}

}  // namespace hologram::capi
