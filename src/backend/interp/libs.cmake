# src/backend/interp/libs.cmake: nothing beside what every backend has
set(TOGETHER TOGETHER)
