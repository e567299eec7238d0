// js/tests/gpu.mjs: what archives do on WebGPU, in browsers and in Deno, as data for tests/torch/test_web.py
import { HologramError, Tensor, open, tensor } from "../hologram.js";
import { openInWorker } from "../worker.js";

const arrays = { bool: Uint8Array, int64: BigInt64Array, float32: Float32Array, float16: Uint16Array, float64: Float64Array };
const decoded = ({ dtype, shape, data }) =>
  new Tensor(dtype, shape, new arrays[dtype](Uint8Array.from(atob(data), (c) => c.charCodeAt(0)).buffer));
const encoded = ({ dtype, shape, data }) => {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return { dtype, shape, data: btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join("")) };
};
const refusal = (work) => Promise.resolve().then(work).then(() => null, ({ code, message }) => [code, message]);
const run = (archive, { method, inputs }) =>
  archive.run(Object.fromEntries(Object.entries(inputs).map(([name, t]) => [name, decoded(t)])), method);

// WebGPU whose adapter is no processor to who asks, so that kernels use subgroups; `texts` holds what it compiles.
const asGpu = (texts) => ({
  requestAdapter: async (options) => {
    const adapter = await navigator.gpu.requestAdapter(options);
    const { limits, features, info: { vendor, architecture, device, description } } = adapter;
    const requestDevice = async (wanted) => {
      const made = await adapter.requestDevice(wanted), compile = made.createShaderModule.bind(made);
      made.createShaderModule = (module) => (texts.push(module.code), compile(module));
      return made;
    };
    return { limits, features, info: { vendor, architecture, device, description, isFallbackAdapter: false }, requestDevice };
  },
});

/** Runs the cases of a folder; a call of a damaged archive ends in an error of the module's or in values. */
export async function results(folder) {
  const place = (file) => new URL(file, folder), read = async (file) => (await fetch(place(file))).arrayBuffer();
  const json = async (file) => JSON.parse(new TextDecoder().decode(await read(file)));
  const result = {}, progress = new Set();
  for (const { file, calls } of await json("cases.json")) {
    let refused = null;
    const onProgress = ({ stage }) => progress.add(stage);
    const archive = await open(place(file), { device: "webgpu", onProgress }).catch(({ code, message }) => {
      refused = [code, message];
      return open(place(file));
    });
    const got = await Promise.all(calls.map((call) => run(archive, call)));
    const { device, adapter } = archive;
    const all = got.map((g) => Object.fromEntries(Object.entries(g).map(([n, t]) => [n, encoded(t)])));
    result[file] = { device, adapter, refused, got: all };
    if (file === "encoder.holo") {
      const texts = [], other = await open(place(file), { device: "webgpu", gpu: asGpu(texts) });
      const values = await run(other, calls[0]);
      other.close();
      const { features } = await navigator.gpu.requestAdapter();
      const used = texts.filter((text) => /^[^/\n]* = subgroupAdd/m.test(text)).length;
      result.subgroups = { there: features.has("subgroups"), used, got: Object.fromEntries(Object.entries(values).map(([n, t]) => [n, encoded(t)])) };
    }
    if (file === "state.holo") {
      archive.reset();
      result.reset = encoded(Object.values(await run(archive, calls[0]))[0]);
    }
    if (file === "embedding.holo") {
      result.worker = await inWorker(calls[0], place(file), new Uint8Array(await read(file)));
      Object.assign(result, await errors(archive, calls[0], place(file), new Uint8Array(await read(file))));
    }
    archive.close();
  }
  const { ids, files } = await json("damaged.json"), all = await read("damaged.bin");
  const called = async (source, verify) => {
    const archive = await open(source, { device: "webgpu", verify });
    const { result0 } = await archive.run({ ids: tensor(ids, "int64") }).finally(() => archive.close());
    return [...result0.data];
  };
  result.ends = [];
  for (const { words, honest, begin, bytes } of files)
    result.ends.push(await called(new Uint8Array(all, begin, bytes), honest ? "full" : "index").then(
      () => ({ words, honest, code: "values" }),
      (error) => ({ words, honest, code: error instanceof HologramError ? error.code : "other", message: String(error) })));
  result.whole = await called(place("small.holo"));
  return { ...result, progress: [...progress] };
}

async function errors(archive, call, file, bytes) {
  const text = new TextEncoder().encode("@compute"), result = {};
  result.far = await refusal(() => archive.run({ ids: tensor([[99, 1, 2]], "int64") }));
  result.near = encoded(Object.values(await run(archive, call))[0]);
  result.closed = await refusal(() => (archive.close(), run(archive, call)));
  bytes[bytes.findIndex((_, i) => text.every((c, k) => bytes[i + k] === c)) + 1] = 67;
  result.damaged = [];
  for (const verify of ["full", "index"]) result.damaged.push(await refusal(() => open(bytes, { device: "webgpu", verify })));
  result.nowhere = await refusal(() => open(file, { device: "webgpu", gpu: null }));
  result.chosen = (await open(file)).reason;
  return result;
}

async function inWorker(call, file, bytes) {
  const length = bytes.length, remote = await openInWorker(file, { device: "webgpu" }), own = await openInWorker(bytes, { device: "wasm" });
  const [one, other] = await Promise.all([run(remote, call), run(own, call)]), control = new AbortController();
  const result = {
    devices: [remote.device, own.device], methods: Object.keys(own.methods), results: [one, other].map((got) => encoded(got.result0)),
    kept: bytes.length === length,
    far: await refusal(() => remote.run({ ids: tensor([[99, 1, 2]], "int64") })),
    unsendable: await refusal(() => remote.run({ ids: () => 1 })),
    missing: await refusal(() => openInWorker(new URL("missing.holo", file))),
    cancelled: await refusal(() => {
      setTimeout(() => control.abort(new Error("enough")));
      return openInWorker(file, { signal: control.signal, onProgress: () => control.abort(new Error("enough")) });
    }),
  };
  await remote.reset();
  const late = refusal(() => run(remote, call));
  remote.close();
  own.close();
  return { ...result, closed: [await late, await refusal(() => remote.reset())] };
}

if (import.meta.main) {
  console.log(JSON.stringify(await results(globalThis.Deno.args[0]))); // of Deno's
  globalThis.Deno.exit(0);
}
