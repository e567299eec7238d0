# src/backend/null/libs.cmake: its programs are interpreted
set(DEPENDS backend/interp)
set(TOGETHER TOGETHER)
