// sigmatics/classes.cpp: arithmetic of classes.
#include "sigmatics/classes.h"

#include "base/error.h"

namespace hologram::sigmatics {
namespace {

constexpr int modality_bits[] = {0, 16, 32};

void check_class(int64_t cls) {
  require(cls >= 0 && cls < num_classes, "Class index {} out of range [0..95]", cls);
}

void check_byte(int64_t byte) {
  require(byte >= 0 && byte < bytes_per_page, "Byte {} out of range [0..255]", byte);
}

int modulo(int64_t x, int n) { return static_cast<int>((x % n + n) % n); }

constexpr int index_of(const Parts& p) { return 24 * p.h2 + 8 * p.d + p.l; }

}  // namespace

int class_index(Parts p) {
  require(p.h2 >= 0 && p.h2 < 4 && p.d >= 0 && p.d < 3 && p.l >= 0 && p.l < 8,
          "Class components (h2={}, d={}, l={}) out of range [0..3], [0..2], [0..7]", p.h2, p.d,
          p.l);
  return index_of(p);
}

Parts parts_of(int64_t cls) {
  check_class(cls);
  auto c = static_cast<int>(cls);
  return {c / 24, c % 24 / 8, c % 8};
}

int class_of_byte(int64_t byte) {
  check_byte(byte);
  auto b = static_cast<int>(byte);
  bool produce = b & 16, consume = b & 32;
  int d = produce == consume ? 0 : produce ? 1 : 2;
  return index_of({b >> 6, d, b >> 1 & 7});
}

int canonical_byte(int64_t cls) {
  Parts p = parts_of(cls);
  return 64 * p.h2 + modality_bits[p.d] + 2 * p.l;
}

std::vector<int> members(int64_t cls) {
  check_class(cls);
  std::vector<int> out;
  for (int b = 0; b < bytes_per_page; ++b)
    if (class_of_byte(b) == cls) out.push_back(b);
  return out;
}

bool equivalent(int64_t byte, int64_t other) { return class_of_byte(byte) == class_of_byte(other); }

int belt_address(int64_t page, int64_t byte) {
  require(page >= 0 && page < num_pages, "Page index {} out of range [0..47]", page);
  check_byte(byte);
  return static_cast<int>(page * bytes_per_page + byte);
}

BeltPlace belt_place(int64_t address) {
  require(address >= 0 && address < belt_size, "Address {} out of range [0..12287]", address);
  auto a = static_cast<int>(address);
  return {a / bytes_per_page, a % bytes_per_page};
}

ClassRun classes_for(int64_t length, int64_t first) {
  check_class(first);
  require(length > 0, "InvalidLength {}: a vector of class memory has at least one element",
          length);
  int64_t needed = (length - 1) / floats_per_class + 1, available = num_classes - first;
  require(needed <= available,
          "InsufficientClasses: {} values need {} classes; {} from class {} on", length, needed,
          available, first);
  return {static_cast<int>(first), static_cast<int>(needed)};
}

int modality_mirror(int64_t cls) { return Transform{.mirror = true}(cls); }

int complement(int64_t cls) {
  check_class(cls);
  return num_classes - 1 - static_cast<int>(cls);
}

std::array<int, 3> triality_orbit(int64_t cls) {
  Parts p = parts_of(cls);
  std::array<int, 3> out{};
  for (int d = 0; d < 3; ++d) out[static_cast<size_t>(d)] = index_of({p.h2, d, p.l});
  return out;
}

std::string describe_class(int64_t cls) {
  Parts p = parts_of(cls);
  return fmt::format("c{:02} (h₂={}, d={}, ℓ={}) → 0x{:02X}", cls, p.h2, p.d, p.l,
                     canonical_byte(cls));
}

Transform Transform::of(int64_t r, int64_t d, int64_t t, bool mirror) {
  return {modulo(r, 4), modulo(d, 3), modulo(t, 8), mirror};
}

int Transform::operator()(int64_t cls) const {
  Parts p = parts_of(cls);
  int moved = (p.d + d) % 3;
  return index_of({(p.h2 + r) % 4, mirror ? (3 - moved) % 3 : moved, (p.l + t) % 8});
}

// ~ negates d: the inverse of d -> -(d + k) is itself, that of d -> d + k adds -k.
Transform Transform::inverse() const { return of(-r, mirror ? d : -d, -t, mirror); }

// d -> s2 (s1 (d + k1) + k2) = s1 s2 (d + k1 + s1 k2), with s = -1 for a mirror.
Transform compose(const Transform& outer, const Transform& inner) {
  int d = inner.d + (inner.mirror ? -outer.d : outer.d);
  return Transform::of(outer.r + inner.r, d, outer.t + inner.t, outer.mirror != inner.mirror);
}

}  // namespace hologram::sigmatics
