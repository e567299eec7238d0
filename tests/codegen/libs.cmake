# tests/codegen/libs.cmake: compiled programs are compared with the interpreter
set(LIBS backend/cpu interp schedule atlas ir base)
set(LINK hologram_test_programs hologram_amx)
set(SHARDS 4)
set(TIMEOUT 1200)
set(TOGETHER ON)
set(ALONE attention_terms_test.cpp attention_test.cpp product_tail_test.cpp product_test.cpp winograd_test.cpp)  # whose cases have the same names
