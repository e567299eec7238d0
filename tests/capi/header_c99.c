/* tests/capi/header_c99.c: the header and a short program in strict C99; called by c99_test.cpp. */
#include "hologram/hologram.h"

int capi_c99_program(float* sum);

int capi_c99_program(float* sum) {
  const float values[4] = {1.0f, 2.0f, 3.0f, 4.0f};
  hologram_handle executor = 0, a = 0, b = 0;
  hologram_status status;
  status = hologram_new_executor(&executor);
  if (status != HOLOGRAM_OK) return (int)status;
  status = hologram_executor_allocate_buffer(executor, 4, &a);
  if (status == HOLOGRAM_OK) status = hologram_executor_allocate_buffer(executor, 4, &b);
  if (status == HOLOGRAM_OK)
    status = hologram_buffer_copy_from_bytes(executor, a, values, sizeof values);
  if (status == HOLOGRAM_OK) status = hologram_vector_add_f32(executor, a, a, b, 4);
  if (status == HOLOGRAM_OK) status = hologram_reduce_sum_f32(executor, b, a, 4, sum);
  if (hologram_executor_cleanup(executor) != HOLOGRAM_OK && status == HOLOGRAM_OK)
    status = HOLOGRAM_INTERNAL;
  return (int)status;
}
