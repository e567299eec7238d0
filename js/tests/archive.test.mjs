// js/tests/archive.test.mjs: archives in Node give the bits that Python gave, and damage is refused
//
// HOLOGRAM_CASES: a folder with cases.json, made by tests/torch/test_web.py.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { test } from "node:test";

import { Archive, HologramError, Tensor, open, tensor } from "../hologram.js";

const folder = process.env.HOLOGRAM_CASES;
const cases = JSON.parse(await readFile(`${folder}/cases.json`, "utf8"));
const model = `${folder}/${cases[0].file}`;

const arrays = {
  bool: Uint8Array, int32: Int32Array, int64: BigInt64Array, float16: Uint16Array, float32: Float32Array,
  float64: Float64Array, uint8: Uint8Array, bfloat16: Uint16Array,
};
function decoded({ dtype, shape, data }) {
  const bytes = Uint8Array.from(Buffer.from(data, "base64"));
  return new Tensor(dtype, shape, new arrays[dtype](bytes.buffer));
}
const bytesOf = (t) => Buffer.from(t.data.buffer, t.data.byteOffset, t.data.byteLength).toString("base64");

for (const { file, calls } of cases)
  test(file, async () => {
    const archive = await open(`${folder}/${file}`);
    for (const { method, inputs, results } of calls) {
      const given = Object.fromEntries(Object.entries(inputs).map(([name, t]) => [name, decoded(t)]));
      const got = await archive.run(given, method);
      assert.deepEqual(Object.keys(got), Object.keys(results));
      for (const [name, expected] of Object.entries(results)) {
        assert.deepEqual(got[name].shape, expected.shape, name);
        assert.equal(got[name].dtype, expected.dtype, name);
        assert.equal(bytesOf(got[name]), expected.data, `${file}: ${name}`);
      }
    }
    archive.close();
  });

test("state goes back to what it is in the file", async () => {
  const { file, calls } = cases.find((c) => c.file === "state.holo");
  const archive = await open(`${folder}/${file}`);
  const call = () => archive.run(Object.fromEntries(Object.entries(calls[0].inputs).map(([n, t]) => [n, decoded(t)])));
  const first = Object.values(await call()).map(bytesOf);
  assert.notDeepEqual(Object.values(await call()).map(bytesOf), first);
  archive.reset();
  assert.deepEqual(Object.values(await call()).map(bytesOf), first);
});

test("types are those of what modules export", async () => {
  const here = (file) => new URL(`../${file}`, import.meta.url);
  const { exports, files } = JSON.parse(await readFile(here("package.json"), "utf8"));
  const names = (text, pattern) => [...text.matchAll(pattern)].map(([, name]) => name).sort();
  for (const { types, default: file } of Object.values(exports)) {
    const text = await readFile(here(types), "utf8");
    assert.deepEqual(names(text, /^export (?:class|function) (\w+)/gm), Object.keys(await import(here(file))).sort(), file);
    assert.ok(files.includes(types.slice(2)) && files.includes(file.slice(2)), file);
    if (file !== "./hologram.js") continue;
    const archive = await open(model), members = names(text.slice(text.indexOf("class Archive")), /^ {2}(?:readonly )?(\w+)[(:]/gm);
    const has = [...Object.keys(archive), ...Object.getOwnPropertyNames(Archive.prototype)];
    assert.deepEqual(members, has.filter((name) => name !== "constructor" && !name.startsWith("_")).sort());
    archive.close();
  }
});

const refused = (code, pattern) => (error) => {
  assert.ok(error instanceof HologramError, String(error?.stack));
  assert.equal(error.code, code, error.message);
  assert.match(error.message, pattern);
  return true;
};

test("what callers get wrong is told", async () => {
  const archive = await open(model);
  const [{ name, dtype, shape }] = archive.methods.forward.inputs;
  const sizes = shape.map((n) => (typeof n === "number" ? n : 2));
  const right = tensor(new Array(sizes.reduce((a, b) => a * b, 1)).fill(0), dtype, sizes);
  await archive.run({ [name]: right });
  await assert.rejects(archive.run({}), refused("invalid_argument", /is missing/));
  await assert.rejects(archive.run({ [name]: right, other: right }), refused("invalid_argument", /no input "other"/));
  await assert.rejects(archive.run({ [name]: tensor([1], "int16") }), refused("invalid_argument", /dtype int16/));
  await assert.rejects(archive.run({ [name]: tensor([1], dtype) }), refused("invalid_argument", /shape \[1\]/));
  await assert.rejects(archive.run({ [name]: right }, "nothing"), refused("not_found", /no method "nothing"/));
  await assert.rejects(archive.run(), refused("invalid_argument", /is missing/));
  await assert.rejects(archive.run({ [name]: [["1"]] }), refused("invalid_argument", /input "x" of "forward": "1" is no float32/));
  await assert.rejects(archive.run({ [name]: tensor([], dtype, [0, 24]) }), refused("invalid_argument", /batch is 0 .* expected 1 to 64/));
  const changed = [new Tensor(dtype, sizes, right.data.slice()), new Tensor(dtype, sizes, right.data.slice())];
  changed[0].shape[0] = 64;
  structuredClone(changed[1].data.buffer, { transfer: [changed[1].data.buffer] });
  for (const one of changed) await assert.rejects(archive.run({ [name]: one }), refused("invalid_argument", /elements, the data have/));
  const nan = await archive.run({ [name]: tensor(new Float32Array(24).fill(NaN), dtype, [1, 24]) });
  assert.ok(nan.result0.data.every(Number.isNaN));
  archive.close();
  await assert.rejects(archive.run({ [name]: right }), refused("invalid_argument", /closed/));
  await assert.rejects(open(`${folder}/missing.holo`), refused("not_found", /missing.holo/));
  for (const source of [undefined, 5, {}]) await assert.rejects(open(source), refused("invalid_argument", /expected a URL/));
  await assert.rejects(open(model, { runtime: new Uint8Array(9) }), refused("unavailable", /does not run/));
  const empty = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0);
  await assert.rejects(open(model, { runtime: empty }), refused("unavailable", /none for this hologram.js/));
});

test("loading ends where the server or the caller ends it, and says why", async () => {
  const bytes = await readFile(model), half = bytes.length >> 1;
  const server = createServer((request, response) => {
    response.writeHead(request.url === "/no" ? 500 : 200, { "content-length": bytes.length });
    response.write(bytes.subarray(0, half));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${server.address().port}/`;
  await assert.rejects(open(`${url}no`), refused("io", /says 500/));
  await assert.rejects(open(await fetch(`${url}no`)), refused("io", /says 500/));
  const large = new Response(bytes, { headers: { "content-length": String(2 ** 31) } });
  await assert.rejects(open(large), refused("out_of_memory", /has 2147483648 bytes; the runtime holds less than 2 GiB/));
  const breaks = ({ loaded }) => loaded === half && server.closeAllConnections();
  await assert.rejects(open(`${url}broken`, { onProgress: breaks }), refused("io", new RegExp(`after ${half} of ${bytes.length} bytes: `)));
  const control = new AbortController(), onProgress = () => control.abort(new Error("enough"));
  await assert.rejects(open(`${url}stalled`, { signal: control.signal, onProgress }), refused("cancelled", /enough/));
  await assert.rejects(open(model, { signal: control.signal }), refused("cancelled", /enough/));
  server.closeAllConnections();
  server.close();
});

test("an index out of range names the operator", async () => {
  const archive = await open(`${folder}/embedding.holo`);
  const wrong = tensor([[99, 1, 2]], "int64");
  await assert.rejects(archive.run({ ids: wrong }), refused("invalid_argument", /index 99 is out of range/));
  await archive.run({ ids: tensor([[9, 1, 2]], "int64") }); // the archive is as good as before
});

test("damage anywhere is refused", async () => {
  const bytes = new Uint8Array(await readFile(model));
  const step = Math.max(1, Math.floor(bytes.length / 150));
  const places = [...Array(72).keys()].filter((at) => at !== 6 && at !== 7); // the minor version, which may be a later one
  for (let at = 72; at < bytes.length; at += step) places.push(at);
  for (let at = bytes.length - 40; at < bytes.length; ++at) places.push(at);
  const padding = paddingOf(bytes);
  for (const at of places) {
    const damaged = bytes.slice();
    damaged[at] ^= 1 << at % 8;
    if (padding(at)) continue;
    await assert.rejects(open(damaged), (error) => {
      assert.ok(error instanceof HologramError && ["corrupt", "unsupported"].includes(error.code), `${at}: ${error}`);
      return true;
    });
  }
  for (const length of [0, 1, 63, 64, 65, bytes.length >> 1, bytes.length - 1])
    await assert.rejects(open(bytes.slice(0, length)), refused("corrupt", /archive/));
});

// Zeros between parts, which no checksum covers: whether a place is one of at least four zeros.
function paddingOf(bytes) {
  return (at) => {
    let from = at, to = at;
    while (from > 0 && bytes[from - 1] === 0) --from;
    while (to < bytes.length && bytes[to] === 0) ++to;
    return bytes[at] === 0 && to - from >= 4 && to % 64 === 0 && at >= 64;
  };
}
