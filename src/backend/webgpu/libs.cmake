# src/backend/webgpu/libs.cmake: wgpu-native is opened at run time, nothing of it is linked
set(DEPENDS gpu host)
set(LINK ${CMAKE_DL_LIBS})
set(TOGETHER TOGETHER)
set(INTERFACES metal vulkan)
