# src/backend/null/libs.cmake: its programs are interpreted
set(DEPENDS interp)
set(TOGETHER TOGETHER)
