// js/tests/memory.test.mjs: calls, and archives opened and closed, leave nothing behind
//
// HOLOGRAM_CASES: a folder with small.holo (tests/torch/damaged.py).
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { open, tensor } from "../hologram.js";
import { nothing } from "./nothing.mjs";

const bytes = await readFile(`${process.env.HOLOGRAM_CASES}/small.holo`);
const call = (archive, n) => archive.run({ ids: tensor(Array.from({ length: n }, (_, i) => i % 9), "int64") });

/** The instances of WebAssembly that `work` makes. */
async function instances(work) {
  const Real = WebAssembly.Instance, made = [];
  WebAssembly.Instance = class extends Real {
    constructor(...given) {
      super(...given);
      made.push(this);
    }
  };
  return work().finally(() => (WebAssembly.Instance = Real)).then((value) => [value, made]);
}

test("a thousand calls take the memory of the first ones", async () => {
  const [archive, [{ exports }]] = await instances(() => open(bytes, { device: "wasm" }));
  for (let n = 1; n <= 64; ++n) await call(archive, n);
  const before = exports.memory.buffer.byteLength, room = exports.hologram_allocate(1);
  for (let i = 0; i < 1000; ++i) {
    await call(archive, 1 + (i % 64));
    if (i % 10 === 0) await assert.rejects(archive.run({ ids: tensor([99], "int64") }), /out of range/);
  }
  exports.hologram_free(room);
  assert.equal(exports.memory.buffer.byteLength, before);
  archive.close();
});

test("on a device a call is one submission, and weights go there once", async () => {
  const gpu = nothing(), { counts } = gpu, archive = await open(bytes, { device: "webgpu", gpu });
  await call(archive, 4);
  const loaded = counts.written;
  await call(archive, 4);
  const first = { ...counts };
  await call(archive, 4);
  assert.equal(counts.submissions - first.submissions, 1);
  assert.equal(counts.groups, first.groups, "places that were bound before are bound anew");
  const weights = Object.values(archive.tensors).reduce((sum, { bytes }) => sum + bytes, 0);
  assert.equal(counts.written - first.written, first.written - loaded);
  assert.ok(weights > 300 && loaded >= weights + first.written - loaded, `${weights} of ${loaded} bytes`);
  for (let n = 1; n <= 64; ++n) await call(archive, n);
  const { buffers, bytes: held, made } = counts;
  for (let i = 0; i < 1000; ++i) await call(archive, 1 + (i % 64));
  assert.deepEqual([counts.buffers, counts.bytes, counts.made], [buffers, held, made]);
  archive.close();
  assert.equal(counts.buffers, 0);
});

test("many archives are opened and closed, on a device too", async () => {
  for (let i = 0; i < 150; ++i)
    for (const device of ["wasm", "webgpu"]) {
      const archive = await open(bytes, { device, gpu: nothing() });
      if (i % 10 === 0) await call(archive, 3);
      archive.close();
    }
});
