# tests/math: sequences evaluated by vectors of the machine at hand, so that whole sweeps take minutes
set(LIBS atlas)
include(CheckCXXSourceRuns)
set(CMAKE_REQUIRED_FLAGS "-mavx512f -mavx512dq")
check_cxx_source_runs("
  #include <immintrin.h>
  int main() { volatile float one = 1; return _mm512_reduce_add_ps(_mm512_set1_ps(one)) == 16.0f ? 0 : 1; }"
  HOLOGRAM_TESTS_RUN_AVX512)
set(CMAKE_REQUIRED_FLAGS "-mfma")
check_cxx_source_runs("
  #include <immintrin.h>
  int main() { volatile float one = 1; __m128 v = _mm_set1_ps(one); return _mm_cvtss_f32(_mm_fmadd_ps(v, v, v)) == 2.0f ? 0 : 1; }"
  HOLOGRAM_TESTS_RUN_FMA)
unset(CMAKE_REQUIRED_FLAGS)
set(math_flags -ffp-contract=off -O3 -fno-math-errno -Wno-psabi)
if(HOLOGRAM_TESTS_RUN_AVX512)
  list(APPEND math_flags -mavx512f -mavx512dq -mfma)
elseif(HOLOGRAM_TESTS_RUN_FMA)
  list(APPEND math_flags -mfma -msse4.1)
endif()
set_source_files_properties(math/native.cpp PROPERTIES COMPILE_OPTIONS "${math_flags}" SKIP_PRECOMPILE_HEADERS ON)

# 113-bit references for f64
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES quadmath)
check_cxx_source_compiles("
  #include <quadmath.h>
  int main() { return static_cast<int>(expq(0)) - 1; }" HOLOGRAM_TESTS_HAVE_QUADMATH)
unset(CMAKE_REQUIRED_LIBRARIES)
if(HOLOGRAM_TESTS_HAVE_QUADMATH)
  set(LINK quadmath)
  set_source_files_properties(math/precise_test.cpp PROPERTIES COMPILE_DEFINITIONS HOLOGRAM_QUADMATH)
endif()
