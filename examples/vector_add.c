/* examples/vector_add.c: two vectors added with the C interface. */
#include <hologram/hologram.h>
#include <stdio.h>

#define CHECK(call)                                   \
  do {                                                \
    if ((call) != HOLOGRAM_OK) {                      \
      fprintf(stderr, "%s\n", hologram_last_error()); \
      return 1;                                       \
    }                                                 \
  } while (0)

int main(void) {
  enum { n = 1000 };
  float x[n], y[n], z[n];
  hologram_handle executor, a, b, c;
  int i;

  for (i = 0; i < n; ++i) {
    x[i] = (float)i;
    y[i] = 2.0f * (float)i;
  }
  CHECK(hologram_new_executor_auto(&executor));
  CHECK(hologram_executor_allocate_buffer(executor, n, &a));
  CHECK(hologram_executor_allocate_buffer(executor, n, &b));
  CHECK(hologram_executor_allocate_buffer(executor, n, &c));
  CHECK(hologram_buffer_copy_from_bytes(executor, a, x, sizeof x));
  CHECK(hologram_buffer_copy_from_bytes(executor, b, y, sizeof y));
  CHECK(hologram_vector_add_f32(executor, a, b, c, n));
  CHECK(hologram_buffer_to_bytes(executor, c, z, sizeof z, NULL));
  for (i = 0; i < n; ++i)
    if (z[i] != x[i] + y[i]) {
      fprintf(stderr, "element %d: %g\n", i, (double)z[i]);
      return 1;
    }
  for (i = 0; i < 10; ++i) printf("%g%s", (double)z[i], i < 9 ? " " : "\n");
  CHECK(hologram_executor_cleanup(executor));
  return 0;
}
