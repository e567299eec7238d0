// tests/fuzz/archive_index.cpp: any bytes are an archive, an index or Error(corrupt); what is read is written back to the same index.
#include "archive/archive.h"
#include "fuzz/input.h"

HOLOGRAM_FUZZ(bytes) {
  using namespace hologram;
  try {
    archive::Archive::from_bytes(std::string(bytes), archive::Verify::full);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::corrupt && e.code() != ErrorCode::unsupported) std::abort();
  }
  constexpr uint64_t file_bytes = uint64_t{1} << 32;
  try {
    const archive::Index index = archive::decode(bytes, file_bytes);
    const std::string once = archive::encode(index);
    if (archive::encode(archive::decode(once, file_bytes)) != once) std::abort();
    for (const archive::Method& m : index.methods)
      for (const archive::Signature& s : m.inputs) (void)archive::named(s.shape, m);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::corrupt) std::abort();
  }
}
