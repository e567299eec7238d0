// archive/index.cpp: the binary form of an archive's index.
#include "archive/index.h"

#include <cstring>
#include <set>
#include <unordered_set>

#include "base/bytes.h"
#include "base/error.h"

namespace hologram::archive {
namespace {

enum class Record : uint64_t {
  producer = 1,
  sections = 2,
  tensors = 3,
  methods = 4,
  precompiled = 5,
  loops = 6,
  precompiled_loops = 7
};

// Bounds of what a reader takes.
constexpr size_t most_records = 1 << 10;
constexpr size_t most_entries = 1 << 20;
constexpr size_t most_rank = 64;
constexpr size_t most_symbols = 1 << 10;
constexpr size_t name_bytes = 4096;
constexpr size_t expression_bytes = 1 << 16;
constexpr size_t structure_bytes = 1 << 24;
constexpr size_t record_bytes = size_t{1} << 30;
constexpr int64_t most_elements = int64_t{1} << 62;

// --- writing

void hash(ByteWriter& out, const Fingerprint& f) {
  for (uint8_t b : f.bytes) out.byte(b);
}

void shape(ByteWriter& out, const Shape& dims) {
  out.uint(dims.size());
  for (const Expr& e : dims) out.string(e.str());
}

void numbers(ByteWriter& out, const std::vector<int64_t>& list) {
  out.uint(list.size());
  for (int64_t n : list) out.uint(static_cast<uint64_t>(n));
}

void signatures(ByteWriter& out, const std::vector<Signature>& list) {
  out.uint(list.size());
  for (const Signature& s : list) {
    out.string(s.name);
    out.byte(static_cast<uint8_t>(s.dtype));
    shape(out, s.shape);
  }
}

void write(ByteWriter& out, const Section& s) {
  out.uint(s.kind);
  out.uint(s.offset);
  out.uint(s.bytes);
  hash(out, s.hash);
}

void write(ByteWriter& out, const Tensor& t) {
  out.string(t.name);
  out.byte(static_cast<uint8_t>(t.dtype));
  numbers(out, t.shape);
  numbers(out, t.strides);
  out.uint(t.offset);
  out.uint(t.bytes);
  out.byte(t.state);
  for (const Fingerprint& f : t.pieces) hash(out, f);
}

void write(ByteWriter& out, const Method& m) {
  out.string(m.name);
  out.uint(m.graph);
  out.byte(m.reproducible);
  out.byte(m.fast);
  out.uint(m.symbols.size());
  for (const Symbol& s : m.symbols) {
    out.string(s.name);
    out.sint(s.least);
    out.sint(s.most);
  }
  signatures(out, m.inputs);
  signatures(out, m.results);
  out.uint(m.parameters.size());
  for (const Source& s : m.parameters) {
    out.byte(static_cast<uint8_t>(s.kind));
    out.uint(s.number);
  }
  shape(out, m.guards);
  out.string(m.structure);
}

void write(ByteWriter& out, const Precompiled& p) {
  out.uint(p.method);
  out.string(p.target);
  out.uint(p.abi);
  out.string(p.generator);
  out.uint(p.plan);
  out.uint(p.code);
}

void write(ByteWriter& out, const Loop& l) {
  out.uint(l.method);
  out.uint(l.callee);
  out.uint(l.graph);
  out.byte(l.descending);
  out.uint(l.operands.size());
  for (const runtime::LoopOperand& o : l.operands) {
    out.byte(static_cast<uint8_t>(o.role));
    out.sint(o.result);
  }
  out.uint(l.results.size());
  for (const int r : l.results) out.sint(r);
  out.string(l.steps.str());
  shape(out, l.sizes);
}

template <class T>
std::string list_of(const std::vector<T>& items) {
  ByteWriter out;
  out.uint(items.size());
  for (const T& item : items) write(out, item);
  return out.take();
}

// --- reading

class Decoder {
 public:
  Decoder(std::string_view bytes, uint64_t file_bytes) : bytes_(bytes), file_bytes_(file_bytes) {}

  Index decode() {
    ByteReader in(bytes_, "index");
    for (size_t n = in.count(most_records); n > 0; --n) {
      const uint64_t kind = in.uint();
      ByteReader record(in.string(record_bytes), "index");
      read(static_cast<Record>(kind), record);
    }
    if (!in.at_end()) in.error("bytes behind the index");
    for (const Method& m : index_.methods) check(m);
    for (const Precompiled& p : index_.precompiled) check(p, index_.methods.size());
    for (const Loop& l : index_.loops) check(l);
    for (const Precompiled& p : index_.precompiled_loops) check(p, index_.loops.size());
    return std::move(index_);
  }

 private:
  void read(Record kind, ByteReader& in) {
    switch (kind) {
      case Record::producer:
        index_.producer = name(in);
        break;
      case Record::sections:
        list(in, index_.sections, [&] { return section(in); });
        break;
      case Record::tensors:
        list(in, index_.tensors, [&] { return tensor(in); });
        unique(in, index_.tensors, "tensor");
        break;
      case Record::methods:
        list(in, index_.methods, [&] { return method(in); });
        unique(in, index_.methods, "method");
        break;
      case Record::precompiled:
        list(in, index_.precompiled, [&] { return precompiled(in); });
        break;
      case Record::loops:
        list(in, index_.loops, [&] { return loop(in); });
        unique_calls(in);
        break;
      case Record::precompiled_loops:
        list(in, index_.precompiled_loops, [&] { return precompiled(in); });
        break;
      default:
        return;  // of a later version
    }
    if (!in.at_end()) in.error("bytes behind a record");
  }

  template <class T, class F>
  static void list(ByteReader& in, std::vector<T>& into, const F& item) {
    if (!into.empty()) in.error("a record that occurs twice");
    for (size_t n = in.count(most_entries); n > 0; --n) into.push_back(item());
  }

  template <class T>
  static void unique(ByteReader& in, const std::vector<T>& items, std::string_view what) {
    std::unordered_set<std::string_view> seen;
    for (const T& item : items)
      if (!seen.insert(item.name).second)
        in.error(fmt::format("two {}s of the name \"{}\"", what, item.name));
  }

  void unique_calls(ByteReader& in) const {
    std::set<std::pair<uint32_t, uint32_t>> seen;
    for (const Loop& l : index_.loops)
      if (!seen.emplace(l.method, l.callee).second) in.error("two loops for one call");
  }

  // Errors and listings repeat it.
  static std::string text(ByteReader& in, size_t most, std::string_view what) {
    std::string s(in.string(most));
    if (!is_plain_text(s)) in.error(fmt::format("{} that is no plain text", what));
    return s;
  }

  static std::string name(ByteReader& in) { return text(in, name_bytes, "a name"); }

  static DType dtype(ByteReader& in) {
    const uint8_t n = in.byte();
    if (n >= num_dtypes || static_cast<DType>(n) == DType::host) in.error("an unknown dtype");
    return static_cast<DType>(n);
  }

  static bool flag(ByteReader& in) {
    const uint8_t n = in.byte();
    if (n > 1) in.error("a truth value that is neither 0 nor 1");
    return n != 0;
  }

  static Fingerprint fingerprint(ByteReader& in) {
    Fingerprint f;
    for (uint8_t& b : f.bytes) b = in.byte();
    return f;
  }

  void place(ByteReader& in, uint64_t& offset, uint64_t& bytes) const {
    offset = in.uint();
    bytes = in.uint();
    if (offset % alignment != 0 || offset < header_bytes || offset > file_bytes_ ||
        bytes > file_bytes_ - offset)
      in.error("a place outside the file");
  }

  Section section(ByteReader& in) const {
    Section s;
    s.kind = static_cast<uint32_t>(in.uint(UINT32_MAX));
    place(in, s.offset, s.bytes);
    s.hash = fingerprint(in);
    return s;
  }

  static std::vector<int64_t> numbers(ByteReader& in) {
    std::vector<int64_t> out;
    for (size_t n = in.count(most_rank); n > 0; --n)
      out.push_back(static_cast<int64_t>(in.uint(static_cast<uint64_t>(most_elements))));
    return out;
  }

  Tensor tensor(ByteReader& in) const {
    Tensor t;
    t.name = name(in);
    t.dtype = dtype(in);
    t.shape = numbers(in);
    t.strides = numbers(in);
    if (t.shape.size() != t.strides.size()) in.error("a tensor with other strides than dimensions");
    place(in, t.offset, t.bytes);
    const uint64_t span = span_of(t.shape, t.strides);
    const auto size = static_cast<uint64_t>(size_of(t.dtype));
    if (t.bytes % size != 0 || t.bytes / size != span)
      in.error(fmt::format("tensor \"{}\" of another size than its shape's", t.name));
    t.state = flag(in);
    for (uint64_t at = 0; at < t.bytes; at += piece_bytes) t.pieces.push_back(fingerprint(in));
    return t;
  }

  static Expr expression(ByteReader& in, size_t symbols) {
    const std::string written = text(in, expression_bytes, "an expression");
    Expr e;
    try {
      e = parse_expr(written);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::corrupt) throw;
      in.error(fmt::format("an expression that cannot be read: {}", error.what()));
    }
    if (e.any_atom([&](const Atom& a) {
          if (a.kind == Atom::Kind::axis || a.kind == Atom::Kind::value) return true;
          return a.kind == Atom::Kind::symbol && (a.id < 0 || static_cast<size_t>(a.id) >= symbols);
        }))
      in.error("an expression of an unknown size");
    return e;
  }

  static Shape shape(ByteReader& in, size_t symbols, size_t most) {
    Shape dims;
    for (size_t n = in.count(most); n > 0; --n) dims.push_back(expression(in, symbols));
    return dims;
  }

  static std::vector<Signature> signatures(ByteReader& in, size_t symbols) {
    std::vector<Signature> out;
    for (size_t n = in.count(most_entries); n > 0; --n) {
      Signature s;
      s.name = name(in);
      s.dtype = dtype(in);
      s.shape = shape(in, symbols, most_rank);
      out.push_back(std::move(s));
    }
    return out;
  }

  static Method method(ByteReader& in) {
    Method m;
    m.name = name(in);
    m.graph = static_cast<uint32_t>(in.uint(most_entries));
    m.reproducible = flag(in);
    m.fast = flag(in);
    for (size_t n = in.count(most_symbols); n > 0; --n) {
      Symbol s;
      s.name = name(in);
      s.least = in.sint();
      s.most = in.sint();
      if (s.least < 0 || s.most < s.least) in.error(fmt::format("size {} without a range", s.name));
      m.symbols.push_back(std::move(s));
    }
    m.inputs = signatures(in, m.symbols.size());
    unique(in, m.inputs, "input");
    m.results = signatures(in, m.symbols.size());
    for (size_t n = in.count(most_entries); n > 0; --n) {
      Source s;
      const uint8_t kind = in.byte();
      if (kind > static_cast<uint8_t>(Source::Kind::tensor)) in.error("an unknown kind of source");
      s.kind = static_cast<Source::Kind>(kind);
      s.number = static_cast<uint32_t>(in.uint(most_entries));
      m.parameters.push_back(s);
    }
    m.guards = shape(in, m.symbols.size(), most_entries);
    m.structure = text(in, structure_bytes, "nesting");
    return m;
  }

  static int result(ByteReader& in) {
    const int64_t n = in.sint();
    if (n < -1 || n >= static_cast<int64_t>(most_entries)) in.error("a result that is not there");
    return static_cast<int>(n);
  }

  static runtime::LoopOperand operand(ByteReader& in) {
    const uint8_t role = in.byte();
    if (role > static_cast<uint8_t>(runtime::LoopOperand::Role::fixed))
      in.error("an unknown role of an operand");
    return {static_cast<runtime::LoopOperand::Role>(role), result(in)};
  }

  // Behind the methods, whose sizes it names.
  Loop loop(ByteReader& in) const {
    Loop l;
    l.method = static_cast<uint32_t>(in.uint(most_entries));
    if (l.method >= index_.methods.size()) in.error("a loop of a method that is not there");
    const size_t symbols = index_.methods[l.method].symbols.size();
    l.callee = static_cast<uint32_t>(in.uint(most_entries));
    l.graph = static_cast<uint32_t>(in.uint(most_entries));
    l.descending = flag(in);
    for (size_t n = in.count(most_entries); n > 0; --n) l.operands.push_back(operand(in));
    for (size_t n = in.count(most_entries); n > 0; --n) l.results.push_back(result(in));
    l.steps = expression(in, symbols);
    l.sizes = shape(in, symbols, most_symbols);
    return l;
  }

  static Precompiled precompiled(ByteReader& in) {
    Precompiled p;
    p.method = static_cast<uint32_t>(in.uint(most_entries));
    p.target = name(in);
    p.abi = static_cast<uint32_t>(in.uint(UINT32_MAX));
    p.generator = name(in);
    p.plan = static_cast<uint32_t>(in.uint(most_entries));
    p.code = static_cast<uint32_t>(in.uint(most_entries));
    return p;
  }

  // What one record says about another.
  bool is_section(uint32_t number, SectionKind kind) const {
    return number < index_.sections.size() &&
           index_.sections[number].kind == static_cast<uint32_t>(kind);
  }

  void check(const Loop& l) const {
    if (!is_section(l.graph, SectionKind::graph))
      fail(ErrorCode::corrupt, "a loop of method \"{}\" names a graph that is not there",
           index_.methods[l.method].name);
  }

  void check(const Precompiled& p, size_t count) const {
    if (p.method >= count || !is_section(p.plan, SectionKind::plan) ||
        !is_section(p.code, SectionKind::code))
      fail(ErrorCode::corrupt, "code of a method or section that is not there");
  }

  void check(const Method& m) const {
    auto bad = [&](std::string_view what) {
      fail(ErrorCode::corrupt, "method \"{}\" names {} that is not there", m.name, what);
    };
    if (!is_section(m.graph, SectionKind::graph)) bad("a graph");
    for (const Source& s : m.parameters)
      if (s.number >= (s.kind == Source::Kind::input ? m.inputs.size() : index_.tensors.size()))
        bad(s.kind == Source::Kind::input ? "an input" : "a tensor");
  }

  std::string_view bytes_;
  uint64_t file_bytes_;
  Index index_;
};

constexpr char magic[4] = {'H', 'O', 'L', 'O'};

template <class T>
void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i)
    out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
}

template <class T>
T get(std::string_view bytes, size_t& at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  at += sizeof(T);
  return static_cast<T>(value);
}

}  // namespace

std::string encode(const Index& index) {
  ByteWriter out;
  out.uint(4U + !index.precompiled.empty() + !index.loops.empty() +
           !index.precompiled_loops.empty());
  auto record = [&](Record kind, const std::string& payload) {
    out.uint(static_cast<uint64_t>(kind));
    out.string(payload);
  };
  ByteWriter producer;
  producer.string(index.producer);
  record(Record::producer, producer.take());
  record(Record::sections, list_of(index.sections));
  record(Record::tensors, list_of(index.tensors));
  record(Record::methods, list_of(index.methods));
  if (!index.precompiled.empty()) record(Record::precompiled, list_of(index.precompiled));
  if (!index.loops.empty()) record(Record::loops, list_of(index.loops));
  if (!index.precompiled_loops.empty())
    record(Record::precompiled_loops, list_of(index.precompiled_loops));
  return out.take();
}

Index decode(std::string_view bytes, uint64_t file_bytes) {
  return Decoder(bytes, file_bytes).decode();
}

std::string encode(const Header& h) {
  std::string out(magic, sizeof magic);
  put(out, h.major);
  put(out, h.minor);
  put(out, h.file_bytes);
  put(out, h.index_offset);
  put(out, h.index_bytes);
  out.append(reinterpret_cast<const char*>(h.index_hash.bytes.data()), h.index_hash.bytes.size());
  return out;
}

Header decode_header(std::string_view bytes, uint64_t file_bytes) {
  if (bytes.size() < header_bytes || std::memcmp(bytes.data(), magic, sizeof magic) != 0)
    fail(ErrorCode::corrupt, "it is no .holo archive");
  size_t at = sizeof magic;
  Header h;
  h.major = get<uint16_t>(bytes, at);
  h.minor = get<uint16_t>(bytes, at);
  if (h.major != format_major)
    fail(h.major > format_major ? ErrorCode::unsupported : ErrorCode::corrupt,
         "it has version {}.{} of the format; this library reads version {}", h.major, h.minor,
         format_major);
  h.file_bytes = get<uint64_t>(bytes, at);
  h.index_offset = get<uint64_t>(bytes, at);
  h.index_bytes = get<uint64_t>(bytes, at);
  std::memcpy(h.index_hash.bytes.data(), bytes.data() + at, h.index_hash.bytes.size());
  if (h.file_bytes != file_bytes)
    fail(ErrorCode::corrupt, "it has {} bytes, its header says {}", file_bytes, h.file_bytes);
  if (h.index_offset < header_bytes || h.index_offset > file_bytes ||
      h.index_bytes > file_bytes - h.index_offset)
    fail(ErrorCode::corrupt, "its index lies outside the file");
  return h;
}

bool is_plain_text(std::string_view s) {
  for (size_t i = 0; i < s.size();) {
    const auto first = static_cast<unsigned char>(s[i]);
    if (first < ' ' || first == 0x7f) return false;
    const size_t n = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (n == 0 || first > 0xf4 || n > s.size() - i) return false;
    uint32_t code = n == 1 ? first : first & (0x7fU >> n);
    for (size_t k = 1; k < n; ++k) {
      const auto next = static_cast<unsigned char>(s[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      code = code << 6 | (next & 0x3f);
    }
    constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    i += n;
  }
  return true;
}

std::string named(const Expr& e, const Method& m) {
  const std::string text = e.str();
  const auto digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text[i] != 's' || !digit(i + 1)) {
      out += text[i++];
      continue;
    }
    size_t number = 0;
    for (++i; digit(i); ++i) number = number * 10 + static_cast<size_t>(text[i] - '0');
    out += number < m.symbols.size() ? m.symbols[number].name : fmt::format("s{}", number);
  }
  return out;
}

std::string named(const Shape& shape, const Method& m) {
  std::string out;
  for (const Expr& e : shape) out += (out.empty() ? "" : ", ") + named(e, m);
  return "[" + out + "]";
}

uint64_t span_of(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  unsigned __int128 last = 0;
  bool none = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 0 || strides[d] < 0) fail(ErrorCode::corrupt, "a tensor of negative size");
    none |= shape[d] == 0;
    if (shape[d] > 0)
      last += static_cast<unsigned __int128>(shape[d] - 1) * static_cast<uint64_t>(strides[d]);
    if (last >= static_cast<uint64_t>(most_elements))
      fail(ErrorCode::corrupt, "a tensor of more than 2^62 elements");
  }
  return none ? 0 : static_cast<uint64_t>(last) + 1;
}

}  // namespace hologram::archive
