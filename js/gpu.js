// js/gpu.js: runs stored WGSL kernels on WebGPU, for the runtime in WebAssembly that plans their launches.
//
// How kernels are stored and launched is said in docs/webgpu.md. Numbers stand for buffers and kernels; the runtime
// (src/rt/wasm/gpu.cpp) names memory of its own by addresses in `memory()`.

const STORAGE = 0x80, UNIFORM = 0x40, COPY_SRC = 0x4, COPY_DST = 0x8, MAP_READ = 0x1; // GPUBufferUsage
const whole = (bytes) => Math.ceil(bytes / 4) * 4;
const MOST_GROUPS = 4096; // bind groups that are kept

/** Words for people: an adapter's name. */
function nameOf({ vendor, architecture, device, description } = {}) {
  return description || device || [vendor, architecture].filter(Boolean).join(" ") || "WebGPU";
}

// Of the words that may stand in front of a text with subgroups, those that this WebGPU takes; undefined without any.
async function wordsOfSubgroups(device) {
  for (const words of ["enable subgroups;\n", ""]) {
    device.pushErrorScope("validation");
    device.createShaderModule({ code: `${words}@compute @workgroup_size(64) fn main() { _ = subgroupAdd(1u); }` });
    if (!(await device.popErrorScope())) return words;
  }
}

// A stored text as it is where kernels use subgroups: docs/webgpu.md.
const withSubgroups = (text) => text.replace(/^.* \/\/-$/gm, "").replace(/^ *\/\/\+ /gm, "");

/**
 * A device of `gpu` (navigator.gpu), or a string: why there is none. `software`: whether an adapter that is a processor
 * will do.
 */
export async function openDevice(gpu, software) {
  if (!gpu) return "there is no WebGPU here";
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) return "WebGPU finds no adapter";
  const info = adapter.info ?? {}, name = nameOf(info), processor = info.isFallbackAdapter ?? adapter.isFallbackAdapter;
  if (!software && processor) return `${name} is no GPU`;
  const requiredLimits = {};
  for (const limit of ["maxStorageBuffersPerShaderStage", "maxStorageBufferBindingSize", "maxBufferSize"])
    requiredLimits[limit] = adapter.limits[limit];
  // Processors work through a subgroup's threads one by one.
  const requiredFeatures = !processor && adapter.features?.has("subgroups") ? ["subgroups"] : [];
  const device = await adapter.requestDevice({ requiredLimits, requiredFeatures });
  return new Device(device, name, requiredFeatures.length > 0 ? await wordsOfSubgroups(device) : undefined);
}

/** A device with what an archive has on it. */
class Device {
  #device;
  #memory;
  #buffers = new Map();
  #kernels = new Map();
  #modules = new Map(); // by text: what kernels of the same text share
  #next = 1;
  #pending = new Set(); // promises of pipelines
  #encoder = null; // of what is not on the queue yet
  #pass = null; // the encoder's that is not ended
  #reads = []; // what was asked for: places in #staging and in memory
  #staging = []; // buffers that are mapped for reading, each with the bytes that are taken of it
  #groups = new Map(); // bind groups by what they bind
  #words = null;
  #lost = null;
  #subgroups; // what stands in front of texts that use them; undefined: none does

  constructor(device, name, subgroups) {
    this.#device = device;
    this.name = name;
    this.#subgroups = subgroups;
    device.lost.then(({ message, reason }) => (this.#lost = `the device is lost: ${message || reason}`));
  }

  get limits() {
    // llvmpipe ends a thread's loops without a word.
    const rounds = this.name.startsWith("llvmpipe") ? 65535 : Number.MAX_SAFE_INTEGER;
    const { maxStorageBufferBindingSize, maxBufferSize, maxStorageBuffersPerShaderStage } = this.#device.limits;
    return [rounds, maxStorageBufferBindingSize, maxBufferSize, maxStorageBuffersPerShaderStage];
  }

  /** What the runtime imports. `memory()`: its memory's buffer. */
  imports(memory) {
    this.#memory = memory;
    const queue = this.#device.queue;
    return {
      gpu_make: (bytes) => this.#keep(this.#buffers, this.#buffer(bytes >>> 0, STORAGE | COPY_SRC | COPY_DST)),
      gpu_drop: (number) => this.#drop(number),
      gpu_write: (number, offset, from, bytes) => {
        this.#flush(); // what was encoded before reads what was there before
        const words = whole(bytes >>> 0);
        if (words === bytes) return queue.writeBuffer(this.#buffers.get(number), offset, memory(), from >>> 0, words);
        const padded = new Uint8Array(words);
        padded.set(new Uint8Array(memory(), from >>> 0, bytes));
        queue.writeBuffer(this.#buffers.get(number), offset, padded);
      },
      gpu_clear: (number, offset, bytes) => this.#encoding().clearBuffer(this.#buffers.get(number), offset, bytes),
      gpu_copy: (from, fromOffset, to, offset, bytes) =>
        this.#encoding().copyBufferToBuffer(this.#buffers.get(from), fromOffset, this.#buffers.get(to), offset, bytes),
      gpu_read: (number, offset, to, bytes) => this.#read(this.#buffers.get(number), offset, to >>> 0, bytes >>> 0),
      gpu_kernel: (text, bytes) =>
        this.#keep(this.#kernels, this.#module(new TextDecoder().decode(new Uint8Array(memory(), text >>> 0, bytes >>> 0)))),
      gpu_drop_kernel: (number) => void this.#kernels.delete(number),
      gpu_submit: (words, count, commands, numbers) =>
        this.#submit(new Int32Array(memory(), words >>> 0, count), new Uint32Array(memory(), commands >>> 0, numbers)),
    };
  }

  /** Pipelines that are asked for and not made yet; `made()` is called with each that is. Rejects where one is refused. */
  async ready(made) {
    const all = [...this.#pending];
    let done = 0;
    if (made) for (const one of all) one.then(() => made(++done, all.length), () => {});
    await Promise.all(all);
  }

  /** Runs `work`, which asks for work on the queue; gives what rejects with the device's words where that was refused. */
  async guarded(work) {
    const device = this.#device, filters = ["internal", "out-of-memory", "validation"];
    for (const filter of filters) device.pushErrorScope(filter);
    let popped;
    try {
      work();
      this.#flush();
    } catch (error) {
      this.#forget();
      throw error;
    } finally {
      popped = Promise.all(filters.map(() => device.popErrorScope()));
    }
    return () => popped.then((errors) => this.#lost ?? errors.find((e) => e)?.message ?? null);
  }

  /** Has the bytes that were asked for where the runtime wants them. */
  async read() {
    const reads = this.#reads, used = this.#staging.filter(({ taken }) => taken > 0);
    this.#reads = [];
    try {
      await Promise.all(used.map(({ buffer, taken }) => buffer.mapAsync(MAP_READ, 0, taken)));
      for (const { staging, at, to, bytes } of reads)
        new Uint8Array(this.#memory(), to, bytes).set(new Uint8Array(staging.buffer.getMappedRange(at, whole(bytes)), 0, bytes));
    } catch (error) {
      this.#forget();
      throw error;
    }
    for (const staging of used) {
      staging.buffer.unmap();
      staging.taken = 0;
    }
  }

  close() {
    this.#device.destroy();
  }

  #keep(map, value) {
    map.set(this.#next, value);
    return this.#next++;
  }

  #drop(number) {
    this.#flush();
    this.#groups.clear();
    this.#buffers.get(number)?.destroy();
    this.#buffers.delete(number);
  }

  #buffer(size, usage) {
    return this.#device.createBuffer({ size, usage });
  }

  #encoding() {
    this.#pass?.end();
    this.#pass = null;
    return (this.#encoder ??= this.#device.createCommandEncoder());
  }

  /** Puts what is encoded on the queue. */
  #flush() {
    if (!this.#encoder) return;
    const encoder = this.#encoding();
    this.#encoder = null;
    this.#device.queue.submit([encoder.finish()]);
  }

  /** After a failure: nothing that was asked for is to come any more. */
  #forget() {
    this.#encoder = this.#pass = null;
    this.#reads = [];
    for (const { buffer } of this.#staging) buffer.destroy();
    this.#staging = [];
  }

  #read(buffer, offset, to, bytes) {
    const size = whole(bytes), step = Math.ceil(size / 8) * 8; // ranges are mapped from multiples of 8
    let staging = this.#staging.find((one) => one.taken + step <= one.buffer.size);
    if (!staging) {
      for (const one of this.#staging.filter(({ taken }) => taken === 0)) one.buffer.destroy(); // too small
      this.#staging = this.#staging.filter(({ taken }) => taken > 0);
      staging = { buffer: this.#buffer(2 ** Math.ceil(Math.log2(Math.max(step, 4096))), MAP_READ | COPY_DST), taken: 0 };
      this.#staging.push(staging);
    }
    this.#encoding().copyBufferToBuffer(buffer, offset, staging.buffer, staging.taken, size);
    this.#reads.push({ staging, at: staging.taken, to, bytes });
    staging.taken += step;
  }

  /** The dispatches of a stored text: pipelines and layouts, as soon as they are made. */
  #module(text) {
    const known = this.#modules.get(text);
    if (known) return known;
    const { dispatches } = JSON.parse(text.slice(3, text.indexOf("\n")));
    const code = this.#subgroups === undefined ? text : this.#subgroups + withSubgroups(text);
    const module = this.#device.createShaderModule({ code });
    const each = dispatches.map(({ entry }) => {
      const made = { pipeline: null, layout: null };
      const work = this.#device
        .createComputePipelineAsync({ layout: "auto", compute: { module, entryPoint: entry } })
        .then(
          (pipeline) => Object.assign(made, { pipeline, layout: pipeline.getBindGroupLayout(0) }),
          async (error) => {
            const { messages } = await module.getCompilationInfo(); // the pipeline's error names the module alone
            throw new Error(messages.find(({ type }) => type === "error")?.message ?? error.message);
          });
      this.#pending.add(work);
      work.then(() => this.#pending.delete(work), () => {});
      return made;
    });
    this.#modules.set(text, each);
    return each;
  }

  #submit(words, commands) {
    const uniform = this.#writeWords(words);
    for (let at = 0; at < commands.length; ) {
      const begin = at, next = (n) => commands.subarray(at, (at += n));
      const [kernel] = next(1);
      if (kernel === 0) {
        const [from, fromOffset, to, offset, bytes] = next(5);
        this.#encoding().copyBufferToBuffer(this.#buffers.get(from), fromOffset, this.#buffers.get(to), offset, bytes);
        continue;
      }
      const [dispatch, place, size, x, y, count] = next(6);
      const bound = next(4 * count);
      const { pipeline, layout } = this.#kernels.get(kernel)[dispatch];
      const group = this.#group(commands.subarray(begin, at).join(), layout, () => [
        { binding: 0, resource: { buffer: uniform, offset: place, size } },
        ...Array.from({ length: count }, (_, b) => {
          const [binding, buffer, offset, bytes] = bound.subarray(4 * b);
          return { binding, resource: { buffer: this.#buffers.get(buffer), offset, size: bytes } };
        }),
      ]);
      this.#pass ??= this.#encoding().beginComputePass();
      this.#pass.setPipeline(pipeline);
      this.#pass.setBindGroup(0, group);
      this.#pass.dispatchWorkgroups(x, y);
    }
  }

  // Calls of the same sizes bind the same places.
  #group(key, layout, entries) {
    let group = this.#groups.get(key);
    if (group) return group;
    if (this.#groups.size >= MOST_GROUPS) this.#groups.clear();
    group = this.#device.createBindGroup({ layout, entries: entries() });
    this.#groups.set(key, group);
    return group;
  }

  // Behind what is submitted before and in front of what comes now: one buffer serves all calls.
  #writeWords(words) {
    this.#flush();
    if (!this.#words || this.#words.size < words.byteLength) {
      this.#words?.destroy();
      this.#groups.clear();
      this.#words = this.#buffer(Math.ceil(Math.max(words.byteLength, 1) / 4096) * 4096, UNIFORM | COPY_DST);
    }
    this.#device.queue.writeBuffer(this.#words, 0, words);
    return this.#words;
  }
}
