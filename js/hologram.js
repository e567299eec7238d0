// js/hologram.js: opens .holo archives and runs their methods, in browsers and in Node.
//
// hologram_rt.wasm, beside this file, is Hologram's runtime: it reads and checks the archive, and runs
// the archive's kernels for WebAssembly, or has gpu.js run those in WGSL. An archive has an instance
// of its own, so that its memory goes when it does.

import { openDevice } from "./gpu.js";

/** What went wrong, as the runtime tells it; `code` is one of the words below. */
export class HologramError extends Error {
  constructor(code, message) {
    super(message);
    this.name = "HologramError";
    this.code = code;
  }
}

const CODES = ["ok", "invalid_argument", "out_of_memory", "not_found", "unsupported", "unavailable", "corrupt", "io",
  "division_by_zero", "internal"];

/** By dtype, the arrays that hold its elements; float16 and bfloat16 as their bits. */
const ARRAYS = {
  bool: Uint8Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array,
  uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, float16: Uint16Array, bfloat16: Uint16Array,
  float32: Float32Array, float64: Float64Array,
};
const NAMES = {
  b8: "bool", i8: "int8", u8: "uint8", i16: "int16", u16: "uint16", i32: "int32", u32: "uint32", i64: "int64",
  u64: "uint64", f16: "float16", bf16: "bfloat16", f32: "float32", f64: "float64",
};

function fail(code, message) {
  throw new HologramError(code, message);
}

/** An array with a shape, row-major. `data`: as ARRAYS says for the dtype. */
export class Tensor {
  constructor(dtype, shape, data) {
    const type = ARRAYS[dtype];
    if (!type) fail("invalid_argument", `Tensor: dtype "${dtype}", expected one of ${Object.keys(ARRAYS).join(", ")}`);
    const length = lengthOf(shape, "Tensor");
    if (!(data instanceof type)) fail("invalid_argument", `Tensor: data of ${dtype} are a ${type.name}`);
    if (data.length !== length)
      fail("invalid_argument", `Tensor: the shape [${shape}] has ${length} elements, the data have ${data.length}`);
    this.dtype = dtype;
    this.shape = [...shape];
    this.data = data;
  }
}

function lengthOf(shape, where) {
  if (!Array.isArray(shape) || !shape.every((n) => Number.isSafeInteger(n) && n >= 0))
    fail("invalid_argument", `${where}: the shape is an array of sizes, got ${JSON.stringify(shape)}`);
  return shape.reduce((n, size) => n * size, 1);
}

/** A tensor of numbers that lie in arrays of arrays, or in a flat array where a shape is given. */
export function tensor(values, dtype = "float32", shape = undefined) {
  const type = ARRAYS[dtype];
  if (!type) fail("invalid_argument", `tensor: dtype "${dtype}", expected one of ${Object.keys(ARRAYS).join(", ")}`);
  if (ArrayBuffer.isView(values) && values instanceof type) return new Tensor(dtype, shape ?? [values.length], values);
  const sizes = [];
  for (let part = values; Array.isArray(part) || ArrayBuffer.isView(part); part = part[0]) {
    sizes.push(part.length);
    if (part.length === 0) break;
  }
  const flat = [];
  const walk = (part, depth) => {
    if (depth === sizes.length) return flat.push(part);
    if (part?.length !== sizes[depth]) fail("invalid_argument", "tensor: the arrays are of different lengths");
    for (const inner of part) walk(inner, depth + 1);
  };
  walk(values, 0);
  const wide = type === BigInt64Array || type === BigUint64Array;
  try {
    return new Tensor(dtype, shape ?? sizes, type.from(flat, wide ? BigInt : Number));
  } catch (error) {
    if (error instanceof HologramError) throw error;
    fail("invalid_argument", `tensor: ${error.message}`);
  }
}

// --- bytes ----------------------------------------------------------------------------------------

const inNode = typeof process !== "undefined" && !!process.versions?.node;

/** A Response, or bytes, for what names or holds them. */
async function sourceOf(source, what) {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  if (typeof Blob !== "undefined" && source instanceof Blob) return new Uint8Array(await source.arrayBuffer());
  if (typeof Response !== "undefined" && source instanceof Response) return source;
  const text = String(source);
  if (inNode && !/^(https?|data|blob):/.test(text)) {
    const { readFile } = await import("node:fs/promises");
    try {
      return await readFile(text.startsWith("file:") ? new URL(text) : text);
    } catch (error) {
      fail(error.code === "ENOENT" ? "not_found" : "io", `${text}: ${error.message}`);
    }
  }
  let response;
  try {
    response = await fetch(source);
  } catch (error) {
    fail("io", `${text}: ${error.message}`);
  }
  if (!response.ok) fail(response.status === 404 ? "not_found" : "io", `${what} ${text}: the server says ${response.status}`);
  return response;
}

/** Reads a response into `room(bytes)`, as far as its length is told; onProgress(loaded, total). */
async function readInto(source, room, onProgress) {
  if (source instanceof Uint8Array) {
    const to = room(source.length);
    to().set(source);
    onProgress?.(source.length, source.length);
    return;
  }
  // The length that is told is that of what is sent, which may be compressed.
  const encoded = source.headers.get("content-encoding");
  const told = encoded && encoded !== "identity" ? 0 : Number(source.headers.get("content-length") ?? 0);
  if (!told || !source.body) {
    const bytes = new Uint8Array(await source.arrayBuffer());
    return readInto(bytes, room, onProgress);
  }
  const to = room(told);
  const reader = source.body.getReader();
  let loaded = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (loaded + value.length > told) fail("io", `the server sends more than the ${told} bytes that it told`);
    to().set(value, loaded);
    loaded += value.length;
    onProgress?.(loaded, told);
  }
  if (loaded !== told) fail("io", `the server sent ${loaded} of ${told} bytes`);
}

// --- the runtime ----------------------------------------------------------------------------------

const compiled = new Map();

/** The runtime's module, compiled once for each place that it comes from. */
function runtimeModule(place) {
  const key = String(place);
  if (!compiled.has(key)) {
    const compiling = compileRuntime(place);
    compiled.set(key, compiling);
    compiling.catch(() => compiled.delete(key));
  }
  return compiled.get(key);
}

async function compileRuntime(place) {
  const source = await sourceOf(place, "the runtime");
  const bytes = source instanceof Uint8Array ? source : new Uint8Array(await source.arrayBuffer());
  try {
    return await WebAssembly.compile(bytes);
  } catch (error) {
    fail("unavailable", `this browser or program does not run Hologram's WebAssembly: ${error.message}`);
  }
}

/** What the C library of the runtime asks of a system: no environment, no files, a clock. */
function systemOf(instance) {
  const view = () => new DataView(instance().exports.memory.buffer);
  const bad = () => 8; // no such file
  return {
    environ_get: () => 0,
    environ_sizes_get(count, bytes) {
      view().setUint32(count, 0, true);
      view().setUint32(bytes, 0, true);
      return 0;
    },
    clock_time_get(_clock, _precision, to) {
      view().setBigUint64(to, BigInt(Math.round(performance.now() * 1e6)), true);
      return 0;
    },
    fd_close: bad, fd_seek: bad, fd_write: bad,
    proc_exit(status) {
      throw new WebAssembly.RuntimeError(`the runtime ended with status ${status}`);
    },
  };
}

/** The bytes of constants that a module of kernels says it has, by its section "dylink.0". */
function constantsOf(module) {
  const [section] = WebAssembly.Module.customSections(module, "dylink.0");
  const bytes = new Uint8Array(section);
  let at = 0;
  const number = () => {
    let n = 0;
    for (let shift = 0; ; shift += 7) {
      const b = bytes[at++];
      n += (b & 127) * 2 ** shift;
      if (!(b & 128)) return n;
    }
  };
  if (number() !== 1) throw new Error("no sizes");
  number();
  return number();
}

/** Puts a module of kernels beside the runtime; its functions take the next places of the table. */
function loadKernels({ exports }, code, bytes, count) {
  try {
    const module = new WebAssembly.Module(new Uint8Array(exports.memory.buffer, code >>> 0, bytes >>> 0).slice());
    const size = constantsOf(module);
    const constants = size ? exports.hologram_allocate(size) : 0;
    if (size && !constants) return 0;
    const env = {
      memory: exports.memory,
      __indirect_function_table: exports.__indirect_function_table,
      __stack_pointer: exports.__stack_pointer,
      __memory_base: new WebAssembly.Global({ value: "i32", mutable: false }, constants),
    };
    for (const name of ["__multi3", "__ashlti3", "__lshrti3", "__ashrti3"]) env[name] = exports[name];
    const kernels = new WebAssembly.Instance(module, { env }).exports;
    const functions = Object.keys(kernels).length;
    const first = exports.__indirect_function_table.grow(functions);
    for (let i = 0; i < functions; ++i) exports.__indirect_function_table.set(first + i, kernels[i]);
    new DataView(exports.memory.buffer).setUint32(count >>> 0, functions, true);
    return first;
  } catch {
    return 0; // the runtime says that it is damaged
  }
}

// --- archives -------------------------------------------------------------------------------------

/**
 * Opens an archive: a URL, a path in Node, a Response, a Blob or bytes. `verify`: "full" compares
 * everything with its checksums, "index" only what is parsed; what runs is always compared. `device`:
 * "webgpu", "wasm", or "auto": a GPU where the archive and this machine have what it takes.
 */
export async function open(source, options = {}) {
  const { onProgress, verify = "full", runtime = new URL("./hologram_rt.wasm", import.meta.url) } = options;
  const { device = "auto", gpu = globalThis.navigator?.gpu } = options;
  if (verify !== "full" && verify !== "index")
    fail("invalid_argument", `open: verify is "${verify}", expected "full" or "index"`);
  if (!["auto", "webgpu", "wasm"].includes(device))
    fail("invalid_argument", `open: device is "${device}", expected "auto", "webgpu" or "wasm"`);
  const [module, bytes] = await Promise.all([runtimeModule(runtime), sourceOf(source, "the archive")]);
  const archive = new Archive(module);
  const told = (stage) => onProgress && ((loaded, total) => onProgress({ stage, loaded, total }));
  await archive._read(bytes, verify === "full", told("archive"));
  if (device !== "wasm") await archive._useGpu(gpu, device === "webgpu", told("kernels"));
  return archive;
}

// What the runtime calls of gpu.js.
const GPU_CALLS = ["gpu_make", "gpu_drop", "gpu_write", "gpu_copy", "gpu_read", "gpu_kernel", "gpu_drop_kernel", "gpu_submit"];

/** An open archive. Calls change its state, where its methods have one. */
export class Archive {
  #instance;
  #broken = null;
  #gpu = null;
  #gpuCalls = {};
  #turn = Promise.resolve(); // calls on a device follow one another

  constructor(module) {
    const toGpu = (name) => [name, (...args) => this.#gpuCalls[name](...args)];
    const instance = new WebAssembly.Instance(module, {
      wasi_snapshot_preview1: systemOf(() => this.#instance),
      hologram: {
        load: (code, bytes, count) => loadKernels(this.#instance, code, bytes, count),
        ...Object.fromEntries(GPU_CALLS.map(toGpu)),
      },
    });
    this.#instance = instance;
    this.#native("_initialize");
    /** What runs kernels: "wasm" or "webgpu". */
    this.device = "wasm";
    /** The device's name. */
    this.adapter = null;
    /** Why "auto" chose "wasm". */
    this.reason = null;
  }

  // A function of the runtime. After a trap nothing in its memory is to be trusted.
  #native(name, ...args) {
    if (!this.#instance) fail("invalid_argument", "the archive is closed");
    if (this.#broken) fail("internal", `an earlier call broke the runtime: ${this.#broken}`);
    try {
      return this.#instance.exports[name](...args);
    } catch (error) {
      this.#broken = error.message;
      fail("internal", `the runtime stopped: ${error.message}`);
    }
  }

  #checked(name, ...args) {
    const status = this.#native(name, ...args);
    if (status !== 0) fail(CODES[status] ?? "internal", this.#text("hologram_message"));
  }

  #memory() {
    return this.#instance.exports.memory.buffer;
  }

  #text(name) {
    const bytes = new Uint8Array(this.#memory(), this.#native(name) >>> 0);
    return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
  }

  async _read(source, full, onProgress) {
    await readInto(source, (bytes) => {
      if (bytes > 0xffff0000) fail("out_of_memory", `the archive has ${bytes} bytes, WebAssembly's memory at most 4 GiB`);
      const at = this.#native("hologram_reserve", bytes) >>> 0;
      if (at === 0) fail("out_of_memory", this.#text("hologram_message"));
      return () => new Uint8Array(this.#memory(), at, bytes);
    }, onProgress);
    this.#checked("hologram_open", full ? 1 : 0);
    const described = JSON.parse(this.#text("hologram_describe"));
    const array = (a) => ({ ...a, dtype: NAMES[a.dtype] ?? a.dtype });
    this.producer = described.producer;
    this.fingerprint = described.fingerprint;
    this.bytes = described.bytes;
    this.targets = described.targets;
    this.tensors = mapped(described.tensors, array);
    this.methods = mapped(described.methods, (m) => ({
      inputs: m.inputs.map(array), results: m.results.map(array), sizes: m.sizes,
    }));
  }

  async _useGpu(gpu, demanded, onProgress) {
    this.reason = await this.#toGpu(gpu, demanded, onProgress);
    if (!this.reason || !demanded) return;
    this.close();
    fail("unavailable", `open: device "webgpu": ${this.reason}`);
  }

  // Why not, or null.
  async #toGpu(gpu, software, onProgress) {
    if (!this.targets.includes("webgpu wgsl")) return "the archive has no kernels in WGSL";
    const device = await openDevice(gpu, software).catch((error) => error.message);
    if (typeof device === "string") return device;
    this.#gpuCalls = device.imports(() => this.#memory());
    try {
      const refusal = await device.guarded(() =>
        this.#withText(device.name, (at) => this.#checked("hologram_use_gpu", at, ...device.limits)));
      await device.ready(onProgress);
      const refused = await refusal();
      if (refused) fail("unsupported", refused);
    } catch (error) {
      this.#native("hologram_leave_gpu");
      device.close();
      if (error.code === "corrupt") throw error;
      return error.message;
    }
    this.#gpu = device;
    this.device = "webgpu";
    this.adapter = device.name;
    return null;
  }

  /**
   * Calls a method with inputs by name, and gives the results by name. An input is a Tensor, or
   * arrays of numbers; the dtype is then the method's.
   */
  async run(inputs, method = undefined) {
    const name = method ?? ("forward" in this.methods || this.#names().length !== 1 ? "forward" : this.#names()[0]);
    if (!Object.hasOwn(this.methods, name))
      fail("not_found", `run: the archive has no method "${name}", but ${this.#names().join(", ") || "none"}`);
    const { inputs: wanted, results } = this.methods[name];
    const given = wanted.map((input) => inputOf(inputs, input, name));
    for (const extra of Object.keys(inputs))
      if (!wanted.some((input) => input.name === extra))
        fail("invalid_argument", `run: "${name}" has no input "${extra}", but ${wanted.map((i) => i.name).join(", ")}`);
    if (!this.#gpu) {
      this.#prepare(name, given);
      this.#checked("hologram_run");
      return this.#results(results);
    }
    const own = given.map((t) => new Tensor(t.dtype, t.shape, t.data.slice()));
    const call = this.#turn.then(() => this.#callOnGpu(name, own, results));
    this.#turn = call.catch(() => {});
    return call;
  }

  #prepare(name, given) {
    this.#begin(name, given);
    given.forEach((tensor, i) => this.#elements(tensor.dtype, this.#native("hologram_input", i), tensor.data.length).set(tensor.data));
  }

  #results(results) {
    this.#checked("hologram_finish");
    return Object.fromEntries(results.map((result, i) => [result.name, this.#result(result, i)]));
  }

  async #callOnGpu(name, given, results) {
    const gpu = this.#gpu;
    this.#prepare(name, given);
    await gpu.ready();
    const refusal = await gpu.guarded(() => this.#checked("hologram_run"));
    const unread = await gpu.read().then(() => null, (error) => error.message);
    const refused = (await refusal()) ?? unread;
    if (refused) fail("internal", `${gpu.name}: ${refused}`);
    return this.#results(results);
  }

  /** Puts state back to what it is in the file. */
  reset() {
    this.#checked("hologram_reset");
  }

  /** Gives its memory back. */
  close() {
    this.#instance = null;
    this.#gpu?.close();
  }

  #names() {
    return Object.keys(this.methods);
  }

  #begin(name, given) {
    const sizes = BigInt64Array.from(given.flatMap((t) => [t.shape.length, ...t.shape]), BigInt);
    this.#withText(name, (at) =>
      this.#withBytes(new Uint8Array(sizes.buffer), (shapes) => this.#checked("hologram_begin", at, shapes)));
  }

  #withText(text, work) {
    this.#withBytes(new TextEncoder().encode(`${text}\0`), work);
  }

  /** Calls work(address) with these bytes in the runtime's memory. */
  #withBytes(bytes, work) {
    const at = this.#native("hologram_allocate", bytes.length) >>> 0;
    if (at === 0) fail("out_of_memory", "the memory of WebAssembly is exhausted");
    new Uint8Array(this.#memory(), at, bytes.length).set(bytes);
    try {
      work(at);
    } finally {
      if (!this.#broken) this.#native("hologram_free", at);
    }
  }

  #elements(dtype, at, length) {
    return new ARRAYS[dtype](this.#memory(), at >>> 0, length);
  }

  #result({ dtype, shape }, i) {
    const sizes = [...new BigInt64Array(this.#memory(), this.#native("hologram_result_shape", i) >>> 0, shape.length)].map(Number);
    const length = sizes.reduce((n, size) => n * size, 1);
    return new Tensor(dtype, sizes, this.#elements(dtype, this.#native("hologram_result", i), length).slice());
  }
}

function mapped(object, change) {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]));
}

function inputOf(inputs, { name, dtype }, method) {
  if (typeof inputs !== "object" || inputs === null || !Object.hasOwn(inputs, name))
    fail("invalid_argument", `run: input "${name}" of "${method}" is missing`);
  const given = inputs[name];
  const made = given instanceof Tensor ? given : tensor(given, dtype);
  if (made.dtype !== dtype)
    fail("invalid_argument", `run: input "${name}" has the dtype ${made.dtype}, expected ${dtype}`);
  return made;
}
