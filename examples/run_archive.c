/* examples/run_archive.c: a model that examples/python/export_model.py wrote, on two rows.
 * With a second argument, the archive's fingerprint, its machine code runs: that needs libhologram_rt alone. */
#include <hologram/hologram.h>
#include <stdio.h>

#define CHECK(call)                                   \
  do {                                                \
    if ((call) != HOLOGRAM_OK) {                      \
      fprintf(stderr, "%s\n", hologram_last_error()); \
      return 1;                                       \
    }                                                 \
  } while (0)

int main(int argc, char** argv) {
  const float x[] = {1, 2, 3, 4};
  float y[4];
  hologram_handle archive, executor, model, buffer, input, output = 0;
  int i;

  if (argc < 2 || argc > 3) {
    fprintf(stderr, "usage: %s MODEL.holo [FINGERPRINT]\n", argv[0]);
    return 2;
  }
  CHECK(hologram_new_executor_auto(&executor));
  CHECK(hologram_archive_open(argv[1], 0, &archive));
  if (argc == 3) CHECK(hologram_archive_trust(archive, argv[2]));
  CHECK(hologram_archive_method(archive, executor, "forward", 0, &model));
  CHECK(hologram_executor_allocate_buffer(executor, 4, &buffer));
  CHECK(hologram_buffer_copy_from_bytes(executor, buffer, x, sizeof x));
  CHECK(hologram_tensor_from_buffer(buffer, "[2, 2]", &input));
  CHECK(hologram_executable_run(model, &input, 1, &output, 1));
  CHECK(hologram_tensor_to_bytes(executor, output, y, sizeof y, NULL));
  for (i = 0; i < 4; i += 2) printf("%g %g\n", (double)y[i], (double)y[i + 1]);
  CHECK(hologram_archive_cleanup(archive));
  CHECK(hologram_executor_cleanup(executor));
  return 0;
}
