# cmake/HologramTargets.cmake: the functions that turn folders into targets

# hologram_target(<folder> <out>): the target of a folder of src/, e.g. backend/cpu -> hologram_backend_cpu
function(hologram_target folder out)
  string(REPLACE "/" "_" name "hologram_${folder}")
  set(${out} "${name}" PARENT_SCOPE)
endfunction()

# hologram_together(<target> [<count>]): its files are compiled so many (four) at a time where HOLOGRAM_UNITY says so
function(hologram_together target)
  set(count 4)
  if(ARGC GREATER 1)
    set(count ${ARGV1})
  endif()
  if(HOLOGRAM_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
    target_compile_options(${target} PRIVATE -Wno-shadow)  # by names of another file
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # GCC looks for garbage from 512 MB on, not from 128: a twentieth of its time, for a tenth more memory.
      target_compile_options(${target} PRIVATE --param=ggc-min-heapsize=524288)
    endif()
  endif()
endfunction()

# hologram_library(<folder> [FLAT] [ONCE] [TOGETHER] [NAME <target>] [FILES <file>...] [EXCEPT <file>...]
#                  [ALONE <file>...] [DEPENDS <folder>...] [LINK <target>...])
# One static library from every .cpp below src/<folder>, or with FLAT in it alone; a folder without any is
# header-only. NAME: another target than hologram_target()'s, of these FILES of it or of all EXCEPT some. Code that runs ONCE for each graph or kernel, like all that links LLVM, is compiled with -O1, which
# takes the compiler a third less. Files that stand TOGETHER are compiled several at a time where HOLOGRAM_UNITY
# says so, but for those that libhologram_rt takes ALONE, without what the others need.
function(hologram_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "FLAT;ONCE;TOGETHER" "NAME" "FILES;EXCEPT;ALONE;DEPENDS;LINK")
  hologram_target(${folder} target)
  if(arg_NAME)
    set(target ${arg_NAME})
  endif()
  set(glob GLOB_RECURSE)
  if(arg_FLAT)
    set(glob GLOB)
  endif()
  file(${glob} sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp")
  list(TRANSFORM arg_FILES PREPEND "${PROJECT_SOURCE_DIR}/src/${folder}/")
  list(TRANSFORM arg_EXCEPT PREPEND "${PROJECT_SOURCE_DIR}/src/${folder}/")
  if(arg_FILES)
    set(sources ${arg_FILES})
  endif()
  list(REMOVE_ITEM sources ${arg_EXCEPT})
  if(sources)
    add_library(${target} STATIC ${sources})
    target_compile_options(${target} PRIVATE ${HOLOGRAM_WARNINGS})
    if(arg_ONCE OR "hologram_llvm" IN_LIST arg_LINK)
      target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:-O1>")
    endif()
    if(arg_TOGETHER)
      set(count 4)
      if("hologram_llvm" IN_LIST arg_LINK)
        set(count 8)  # LLVM's headers take the compiler most of a second in each unit, precompiled or not
      endif()
      hologram_together(${target} ${count})
      list(TRANSFORM arg_ALONE PREPEND "${PROJECT_SOURCE_DIR}/src/${folder}/")
      set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
    # Precompiled headers are of one optimisation level.
    if(folder STREQUAL "codegen")
      hologram_precompile(${target} ${HOLOGRAM_PCH_LLVM})
    elseif("hologram_llvm" IN_LIST arg_LINK)
      hologram_precompile_like(${target} hologram_codegen)
    elseif(folder MATCHES "^(base|sigmatics)$")
      hologram_precompile(${target})
    elseif(arg_ONCE)
      hologram_precompile_like(${target} hologram_sigmatics)
    else()
      hologram_precompile_like(${target} hologram_base)
    endif()
    if(NOT "hologram_llvm" IN_LIST arg_LINK)
      # The shared library's version script says what is seen of it (HologramShared.cmake).
      set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET default)
      target_compile_options(${target} PRIVATE -fno-semantic-interposition)
      set_property(GLOBAL APPEND PROPERTY HOLOGRAM_PARTS ${target})
    endif()
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope}
    "${PROJECT_SOURCE_DIR}/src" "${PROJECT_BINARY_DIR}/generated")
  foreach(dependency IN LISTS arg_DEPENDS)
    hologram_target(${dependency} library)
    target_link_libraries(${target} ${scope} ${library})
  endforeach()
  # LLVM's headers and definitions stay inside the folders that include them.
  foreach(library IN LISTS arg_LINK)
    if(library STREQUAL "hologram_llvm" AND scope STREQUAL "PUBLIC")
      target_link_libraries(${target} PRIVATE ${library})
    else()
      target_link_libraries(${target} ${scope} ${library})
    endif()
  endforeach()
endfunction()

# hologram_vectors(<file> <option>...): one file compiled for an instruction set of x86-64, whichever the rest is for. Every
# operation rounds for itself.
function(hologram_vectors file)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    set_source_files_properties("${file}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON
      COMPILE_OPTIONS "${ARGN};-O3;-ffp-contract=off;-fno-math-errno;-fno-trapping-math")
  endif()
endfunction()

# hologram_hide_symbols(<target> <version script>): what the script does not name is not exported.
# Symbols are bound at load time, so that a missing one fails the import and not a later call.
function(hologram_hide_symbols target script)
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    target_link_options(${target} PRIVATE
      -Wl,--exclude-libs,ALL "-Wl,--version-script=${script}" -Wl,-z,now)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
  endif()
endfunction()

# hologram_test_options(<target>): how the tests are compiled, with -O1, which takes the compiler a third less
function(hologram_test_options target)
  target_compile_options(${target} PRIVATE ${HOLOGRAM_WARNINGS} "$<$<CONFIG:Release>:-O1>")
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  # The way to the sources (support/paths.h): a build may be moved with them.
  file(RELATIVE_PATH sources "${CMAKE_CURRENT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${target} PRIVATE "HOLOGRAM_SOURCE_FROM_PROGRAM=\"${sources}\"")
endfunction()

# hologram_test_group(<folder>): tests/<folder>/*.cpp become the executable test_<folder>, run by ctest.
# tests/<folder>/libs.cmake may set
#   LIBS     folders of src/ to link (default: the folder of the group's own name, as in ir or
#            backend_cpu, with what that needs; else everything)
#   LINK     further targets
#   SOURCES  further files
#   TOGETHER compiles its files several at a time where HOLOGRAM_UNITY says so, but for those ALONE
#   SHARDS   how many ctest tests the executable is split into (default 1)
#   TIMEOUT  seconds for one of them (default 600; with a sanitizer four times that)
#   SKIP     why the group is not built here (default: it is)
function(hologram_test_group folder)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp")
  if(NOT sources)
    return()
  endif()
  set(LIBS capi)
  if(TARGET hologram_${folder})
    set(LIBS ${folder})
  endif()
  set(LINK "")
  set(SOURCES "")
  set(SHARDS 1)
  set(TOGETHER "")
  set(ALONE "")
  set(TIMEOUT 600)
  set(SKIP "")
  include("${CMAKE_CURRENT_SOURCE_DIR}/${folder}/libs.cmake" OPTIONAL)
  if(SKIP)
    message(STATUS "tests/${folder}: not built: ${SKIP}")
    return()
  endif()
  if(HOLOGRAM_SANITIZE)
    math(EXPR TIMEOUT "${TIMEOUT} * 4")
  endif()
  set(target test_${folder})
  add_executable(${target} ${sources} ${SOURCES})
  hologram_test_options(${target})
  if(TOGETHER)
    hologram_together(${target})
    list(TRANSFORM ALONE PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/")
    set_source_files_properties(${ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  foreach(library IN LISTS LIBS)
    hologram_target(${library} name)
    target_link_libraries(${target} PRIVATE ${name})
  endforeach()
  target_link_libraries(${target} PRIVATE ${LINK} GTest::gtest GTest::gtest_main)
  hologram_precompile_like(${target} hologram_test_headers)
  math(EXPR last "${SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(name ${folder})
    if(SHARDS GREATER 1)
      set(name ${folder}.${shard})
    endif()
    add_test(NAME ${name} COMMAND ${target} --gtest_brief=1)
    set_tests_properties(${name} PROPERTIES
      TIMEOUT ${TIMEOUT} LABELS ${folder}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${SHARDS};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

# hologram_fuzz_group(<folder>): tests/<folder>/<name>.cpp becomes the libFuzzer executable fuzz_<name>, run
# by ctest for HOLOGRAM_FUZZ_SECONDS on the inputs in tests/<folder>/corpus/<name>, if there are any.
# tests/<folder>/libs.cmake may set LIBS (default: the folders of src/ that most of them need), and
# tests/<folder>/<name>.cmake SOURCES, further files of the one target.
function(hologram_fuzz_group folder)
  set(LIBS interp canon sigmatics)
  include("${CMAKE_CURRENT_SOURCE_DIR}/${folder}/libs.cmake" OPTIONAL)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp")
  add_custom_target(fuzzers)
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    set(target fuzz_${name})
    set(SOURCES "")
    include("${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${name}.cmake" OPTIONAL)
    add_executable(${target} ${source} ${SOURCES})
    add_dependencies(fuzzers ${target})
    target_compile_options(${target} PRIVATE ${HOLOGRAM_WARNINGS})
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests"
                               "${PROJECT_SOURCE_DIR}/include")
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    foreach(library IN LISTS LIBS)
      hologram_target(${library} library_target)
      target_link_libraries(${target} PRIVATE ${library_target})
    endforeach()
    # New inputs go to the build tree; the corpus of the repository is read only.
    set(found "${CMAKE_CURRENT_BINARY_DIR}/corpus/${name}")
    file(MAKE_DIRECTORY "${found}")
    set(corpus "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/corpus/${name}")
    if(NOT IS_DIRECTORY "${corpus}")
      set(corpus "")
    endif()
    # One seed: every run tries the same inputs in the same order, as many as its time allows.
    add_test(NAME ${target} COMMAND ${target} -seed=1 -max_total_time=${HOLOGRAM_FUZZ_SECONDS} -timeout=10
             -rss_limit_mb=4096 -print_final_stats=1 -verbosity=0 "${found}" ${corpus})
    math(EXPR limit "${HOLOGRAM_FUZZ_SECONDS} + 120")
    set_tests_properties(${target} PROPERTIES LABELS fuzz TIMEOUT ${limit})
  endforeach()
endfunction()
