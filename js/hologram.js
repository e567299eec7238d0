// js/hologram.js: opens .holo archives and runs their methods, in browsers and in Node.
//
// hologram_rt.wasm, beside this file, is Hologram's runtime: it reads and checks the archive, and runs
// the archive's kernels for WebAssembly, or has gpu.js run those in WGSL. An archive has an instance
// of its own, so that its memory goes when it does.
import { bytesOf, goOn, readInto, sourceOf } from "./bytes.js";
import { openDevice } from "./gpu.js";
import { ARRAYS, CODES, HologramError, Tensor, asTensor, fail, tensor } from "./tensor.js";

export { HologramError, Tensor, tensor };

const NAMES = {
  b8: "bool", i8: "int8", u8: "uint8", i16: "int16", u16: "uint16", i32: "int32", u32: "uint32", i64: "int64",
  u64: "uint64", f16: "float16", bf16: "bfloat16", f32: "float32", f64: "float64",
};

// --- the runtime ----------------------------------------------------------------------------------

const compiled = new Map();

/** The runtime's module, compiled once for each place that it comes from. */
function runtimeModule(place) {
  if (typeof place !== "string" && !(place instanceof URL)) return compileRuntime(place);
  const key = String(place);
  if (!compiled.has(key)) {
    const compiling = compileRuntime(place);
    compiled.set(key, compiling);
    compiling.catch(() => compiled.delete(key));
  }
  return compiled.get(key);
}

async function compileRuntime(place) {
  const bytes = await bytesOf(await sourceOf(place, "the runtime"), "the runtime");
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

const MOST_BYTES = 2 ** 31 - 256; // of a string in the runtime

// --- archives -------------------------------------------------------------------------------------

/**
 * Opens an archive: a URL, a path in Node, a Response, a Blob or bytes. `verify`: "full" compares
 * everything with its checksums, "index" only what is parsed or run, and no weights. `device`:
 * "webgpu", "wasm", or "auto": a GPU where the archive and this machine have what it takes. `signal`: an AbortSignal.
 */
export async function open(source, options = undefined) {
  const { onProgress, signal, verify = "full", runtime = new URL("./hologram_rt.wasm", import.meta.url) } = options ?? {};
  const { device = "auto", gpu = globalThis.navigator?.gpu } = options ?? {};
  if (verify !== "full" && verify !== "index")
    fail("invalid_argument", `open: verify is "${verify}", expected "full" or "index"`);
  if (!["auto", "webgpu", "wasm"].includes(device))
    fail("invalid_argument", `open: device is "${device}", expected "auto", "webgpu" or "wasm"`);
  const [module, bytes] = await Promise.all([runtimeModule(runtime), sourceOf(source, "the archive", signal)]);
  const archive = new Archive(module);
  const told = (stage) => onProgress && ((loaded, total) => onProgress({ stage, loaded, total }));
  await archive._read(bytes, verify === "full", told("archive"), signal);
  if (device !== "wasm") await archive._useGpu(gpu, device === "webgpu", told("kernels"), signal);
  return archive;
}

// What the runtime calls of gpu.js.
const GPU_CALLS = ["gpu_make", "gpu_drop", "gpu_write", "gpu_clear", "gpu_copy", "gpu_read", "gpu_kernel", "gpu_drop_kernel",
  "gpu_submit"];

/** An open archive. Calls change its state, where its methods have one. */
export class Archive {
  #instance;
  #broken = null;
  #gpu = null;
  #gpuCalls = {};
  #turn = Promise.resolve(); // calls on a device follow one another

  constructor(module) {
    const toGpu = (name) => [name, (...args) => this.#gpuCalls[name](...args)];
    const imports = {
      wasi_snapshot_preview1: systemOf(() => this.#instance),
      hologram: {
        load: (code, bytes, count) => loadKernels(this.#instance, code, bytes, count),
        ...Object.fromEntries(GPU_CALLS.map(toGpu)),
      },
    };
    try {
      this.#instance = new WebAssembly.Instance(module, imports);
      this.#instance.exports._initialize();
    } catch (error) {
      if (error instanceof RangeError) fail("out_of_memory", `no memory for another archive: ${error.message}`);
      fail("unavailable", `the runtime is none for this hologram.js: ${error.message}`);
    }
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

  async _read(source, full, onProgress, signal) {
    await readInto(source, (bytes) => {
      if (bytes > MOST_BYTES) fail("out_of_memory", `the archive has ${bytes} bytes; the runtime holds less than 2 GiB`);
      const at = this.#native("hologram_reserve", bytes) >>> 0;
      if (at === 0) fail("out_of_memory", this.#text("hologram_message"));
      return () => new Uint8Array(this.#memory(), at, bytes);
    }, onProgress, signal);
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

  async _useGpu(gpu, demanded, onProgress, signal) {
    this.reason = await this.#toGpu(gpu, demanded, onProgress);
    if (signal?.aborted) this.close();
    goOn(signal, "open");
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
    const given = wanted.map((input) => inputOf(inputs ?? {}, input, name));
    for (const extra of Object.keys(inputs ?? {}))
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
  if (!Object.hasOwn(inputs, name)) fail("invalid_argument", `run: input "${name}" of "${method}" is missing`);
  return asTensor(inputs[name], dtype, `run: input "${name}" of "${method}"`);
}
