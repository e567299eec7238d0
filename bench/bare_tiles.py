# bench/bare_tiles.py: what a processor's tile products take by themselves, and what of a kernel's time they are
"""A loop of AMX products without loads, in machine code of its own, on as many threads as asked for. The kernel's products are
counted as src/backend/cpu/tiles cuts them: 32 × 32 sums, steps of 64 bytes of k. Shares of a kernel's time:

tiles     the same number of products in the bare loop
depth     what grows with k beyond that: waiting for operands, copying and splitting rows, scanning columns
sums      what does not grow with k: epilogue, repair, handing out units, of attention the softmax; from a second run with
          twice the depth
packing   of a right operand that is new in each call, from a run with one that is packed ahead
"""

import ctypes
import mmap
import struct
import threading
import time

# rdi: a configuration, rsi: rounds of four products.
CODE = bytes.fromhex(
    "c4e2784907"  # ldtilecfg [rdi]
    "c4e24a5cc4" "c4e2425ccc" "c4e24a5cd5" "c4e2425cdd"  # tdpbf16ps tmm0 … tmm3 += tmm4, tmm5 · tmm6, tmm7
    "48ffce" "75e7"  # dec rsi; jnz
    "c4e27849c0" "c3"  # tilerelease; ret
)  # fmt: skip
CONFIG = struct.pack("<16B16H16B", 1, *[0] * 15, *[64] * 8, *[0] * 8, *[16] * 8, *[0] * 8)
PAIRS = {"bytes": 1, "bfloat16": 1, "medium": 1, "float32": 6}  # tile products of a step and a tile of sums
STEP = {"bytes": 64, "bfloat16": 32, "medium": 32, "float32": 32}  # values of k


def products_of(kind: str, m: int, n: int, k: int) -> int:
    """Tile products of 16 × 16 sums, as many as the kernel makes."""
    rows = m // 32 * 2 + (0 if m % 32 == 0 else 1 if m % 32 <= 16 else 2)
    return rows * (-(-n // 32) * 2) * -(-k // STEP[kind]) * PAIRS[kind]


class BareLoop:
    """Only where this process may use tiles."""

    def __init__(self):
        self.memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.memory.write(CODE)
        self.config = ctypes.create_string_buffer(CONFIG, 64)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)

    def seconds(self, threads: int, rounds: int = 200_000) -> float:
        """Of a tile product when all threads run them; the fastest of five."""
        return min(self._once(threads, rounds) for _ in range(5)) / (4 * rounds * threads)

    def _once(self, threads: int, rounds: int) -> float:
        ready = threading.Barrier(threads + 1)

        def work():
            ready.wait()
            self.run(ctypes.addressof(self.config), rounds)  # ctypes lets the interpreter's lock go

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        ready.wait()
        start = time.perf_counter()
        for worker in workers:
            worker.join()
        return time.perf_counter() - start


def shares(bare: float, packed: float, doubled: float | None = None, given: float | None = None) -> dict:
    """Of `packed`, a kernel's time, whose products take `bare` by themselves; `doubled`: its time with twice the depth."""
    found = {"tiles": bare / packed}
    if doubled is not None:
        found["sums"] = max(0.0, (2 * packed - doubled) / packed)
        found["depth"] = max(0.0, 1 - found["sums"] - found["tiles"])
    if given is not None:
        found["packing"] = max(0.0, 1 - packed / given)
    return found
