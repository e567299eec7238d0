// archive/archive.cpp: reading .holo archives.
#include "archive/archive.h"

#include <algorithm>

#include "base/error.h"

namespace hologram::archive {

std::shared_ptr<const Archive> Archive::open(const std::filesystem::path& path, Verify verify) {
  std::shared_ptr<Archive> a(new Archive);
  a->name_ = path.string();
  a->mapped_.emplace(path);
  a->bytes_ = a->mapped_->bytes();
  a->parse(verify);
  return a;
}

std::shared_ptr<const Archive> Archive::from_bytes(std::string bytes, Verify verify) {
  std::shared_ptr<Archive> a(new Archive);
  a->name_ = "archive";
  a->held_ = std::move(bytes);
  a->bytes_ = a->held_;
  a->parse(verify);
  return a;
}

void Archive::parse(Verify verify) {
  try {
    // Copies: what is read is what was compared, whatever happens to the file.
    const std::string head(bytes_.substr(0, header_bytes));
    const Header header = decode_header(head, bytes_.size());
    fingerprint_ = hologram::fingerprint(head);
    const std::string index(bytes_.substr(header.index_offset, header.index_bytes));
    if (hologram::fingerprint(index) != header.index_hash)
      fail(ErrorCode::corrupt, "its index does not agree with its checksum");
    index_ = decode(index, bytes_.size());
    for (const Method& m : index_.methods) compare_section(section(m.graph), m.graph);
    if (verify == Verify::full) compare_all();
  } catch (const Error& e) {
    fail(e.code(), "{}: {}", name_, e.what());
  }
}

std::string_view Archive::section(uint32_t number) const {
  const Section& s = index_.sections[number];
  return bytes_.substr(s.offset, s.bytes);
}

const std::byte* Archive::data(const Tensor& tensor) const {
  return reinterpret_cast<const std::byte*>(bytes_.data()) + tensor.offset;
}

const Method& Archive::method(std::string_view name) const {
  const auto& all = index_.methods;
  const auto found = std::ranges::find(all, name, &Method::name);
  if (found != all.end()) return *found;
  std::string names;
  for (const Method& m : all) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", m.name);
  fail(ErrorCode::not_found, "{} has no method \"{}\", but {}", name_, name,
       names.empty() ? "none" : names);
}

std::string Archive::checked_section(uint32_t number) const {
  std::string content(section(number));
  compare_section(content, number);
  return content;
}

void Archive::compare_section(std::string_view content, uint32_t number) const {
  if (hologram::fingerprint(content) != index_.sections[number].hash)
    fail(ErrorCode::corrupt, "section {} does not agree with its checksum", number);
}

void Archive::verify_all() const {
  try {
    compare_all();
  } catch (const Error& e) {
    fail(e.code(), "{}: {}", name_, e.what());
  }
}

// The first piece of a tensor that differs from its hash, or their number.
size_t Archive::first_difference(const Tensor& t) const {
  const std::string_view content = bytes_.substr(t.offset, t.bytes);
  size_t i = 0;
  while (i < t.pieces.size() &&
         hologram::fingerprint(content.substr(i * piece_bytes, piece_bytes)) == t.pieces[i])
    ++i;
  return i;
}

bool Archive::agrees(const Tensor& t) const { return first_difference(t) == t.pieces.size(); }

void Archive::compare_all() const {
  for (uint32_t i = 0; i < index_.sections.size(); ++i) compare_section(section(i), i);
  for (const Tensor& t : index_.tensors)
    if (const size_t i = first_difference(t); i < t.pieces.size())
      fail(ErrorCode::corrupt, "tensor \"{}\" does not agree with its checksum in piece {}", t.name,
           i);
}

}  // namespace hologram::archive
