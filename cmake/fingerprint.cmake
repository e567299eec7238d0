# cmake/fingerprint.cmake: writes OUT, a header with a hash over VERSION and the files that the file LIST names (one a line)
file(STRINGS "${LIST}" files)
set(all "${VERSION}\n")
foreach(file IN LISTS files)
  file(SHA256 "${file}" hash)
  get_filename_component(name "${file}" NAME)
  string(APPEND all "${name} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
string(CONCAT text
       "// The sources that code of this namespace is made by, as one hash: cached code of other sources is not used.\n"
       "#pragma once\n\nnamespace hologram::${NAMESPACE} {\n"
       "inline constexpr const char* sources_hash = \"${hash}\";\n"
       "}  // namespace hologram::${NAMESPACE}\n")
file(WRITE "${OUT}" "${text}")
