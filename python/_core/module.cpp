// python/_core/module.cpp: entry point of the native module hologram._core
#include <nanobind/nanobind.h>

#include "base/version.h"

namespace nb = nanobind;

NB_MODULE(_core, m) {
  m.doc() = "Native part of the hologram package.";
  m.attr("__version__") = HOLOGRAM_VERSION;
  m.def(
      "version", [] { return HOLOGRAM_VERSION; }, "Version of the native library, as 'X.Y.Z'.");
}
