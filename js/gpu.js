// js/gpu.js: runs stored WGSL kernels on WebGPU, for the runtime in WebAssembly that plans their launches.
//
// How kernels are stored and launched is said in docs/webgpu.md. Numbers stand for buffers and kernels; the runtime
// (src/rt/wasm/gpu.cpp) names memory of its own by addresses in `memory()`.

const STORAGE = 0x80, UNIFORM = 0x40, COPY_SRC = 0x4, COPY_DST = 0x8, MAP_READ = 0x1; // GPUBufferUsage
const whole = (bytes) => Math.ceil(bytes / 4) * 4;

/** Words for people: an adapter's name. */
function nameOf({ vendor, architecture, device, description } = {}) {
  return description || device || [vendor, architecture].filter(Boolean).join(" ") || "WebGPU";
}

/**
 * A device of `gpu` (navigator.gpu), or a string: why there is none. `software`: whether an adapter that is a processor
 * will do.
 */
export async function openDevice(gpu, software) {
  if (!gpu) return "there is no WebGPU here";
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) return "WebGPU finds no adapter";
  const info = adapter.info ?? {}, name = nameOf(info);
  if (!software && (info.isFallbackAdapter ?? adapter.isFallbackAdapter)) return `${name} is no GPU`;
  const requiredLimits = {};
  for (const limit of ["maxStorageBuffersPerShaderStage", "maxStorageBufferBindingSize", "maxBufferSize"])
    requiredLimits[limit] = adapter.limits[limit];
  const device = await adapter.requestDevice({ requiredLimits });
  return new Device(device, name);
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
  #reads = [];
  #words = null;
  #lost = null;

  constructor(device, name) {
    this.#device = device;
    this.name = name;
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
        const words = whole(bytes >>> 0);
        if (words === bytes) return queue.writeBuffer(this.#buffers.get(number), offset, memory(), from >>> 0, words);
        const padded = new Uint8Array(words);
        padded.set(new Uint8Array(memory(), from >>> 0, bytes));
        queue.writeBuffer(this.#buffers.get(number), offset, padded);
      },
      gpu_copy: (from, fromOffset, to, offset, bytes) =>
        this.#encoded((encoder) =>
          encoder.copyBufferToBuffer(this.#buffers.get(from), fromOffset, this.#buffers.get(to), offset, bytes)),
      gpu_read: (number, offset, to, bytes) => {
        const staging = this.#buffer(whole(bytes >>> 0), MAP_READ | COPY_DST);
        this.#encoded((encoder) => encoder.copyBufferToBuffer(this.#buffers.get(number), offset, staging, 0, staging.size));
        this.#reads.push({ staging, to: to >>> 0, bytes: bytes >>> 0 });
      },
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

  /** Runs `work`, which puts work on the queue; rejects with the device's words where that was refused. */
  async guarded(work) {
    const device = this.#device, filters = ["internal", "out-of-memory", "validation"];
    for (const filter of filters) device.pushErrorScope(filter);
    let popped;
    try {
      work();
    } finally {
      popped = Promise.all(filters.map(() => device.popErrorScope()));
    }
    return () => popped.then((errors) => this.#lost ?? errors.find((e) => e)?.message ?? null);
  }

  /** Has the bytes that were asked for where the runtime wants them. */
  async read() {
    const reads = this.#reads;
    this.#reads = [];
    try {
      await Promise.all(reads.map(({ staging }) => staging.mapAsync(MAP_READ)));
      for (const { staging, to, bytes } of reads)
        new Uint8Array(this.#memory(), to, bytes).set(new Uint8Array(staging.getMappedRange(), 0, bytes));
    } finally {
      for (const { staging } of reads) staging.destroy();
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
    this.#buffers.get(number)?.destroy();
    this.#buffers.delete(number);
  }

  #buffer(size, usage) {
    return this.#device.createBuffer({ size, usage });
  }

  #encoded(work) {
    const encoder = this.#device.createCommandEncoder();
    work(encoder);
    this.#device.queue.submit([encoder.finish()]);
  }

  /** The dispatches of a stored text: pipelines and layouts, as soon as they are made. */
  #module(text) {
    const known = this.#modules.get(text);
    if (known) return known;
    const { dispatches } = JSON.parse(text.slice(3, text.indexOf("\n")));
    const module = this.#device.createShaderModule({ code: text });
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
    const encoder = this.#device.createCommandEncoder();
    const uniform = this.#writeWords(words);
    let pass = null;
    for (let at = 0; at < commands.length; ) {
      const next = (n) => commands.subarray(at, (at += n));
      const [kernel] = next(1);
      if (kernel === 0) {
        const [from, fromOffset, to, offset, bytes] = next(5);
        pass?.end();
        pass = null;
        encoder.copyBufferToBuffer(this.#buffers.get(from), fromOffset, this.#buffers.get(to), offset, bytes);
        continue;
      }
      const [dispatch, place, size, x, y, count] = next(6);
      const entries = [{ binding: 0, resource: { buffer: uniform, offset: place, size } }];
      for (let b = 0; b < count; ++b) {
        const [binding, buffer, offset, bytes] = next(4);
        entries.push({ binding, resource: { buffer: this.#buffers.get(buffer), offset, size: bytes } });
      }
      const { pipeline, layout } = this.#kernels.get(kernel)[dispatch];
      pass ??= encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, this.#device.createBindGroup({ layout, entries }));
      pass.dispatchWorkgroups(x, y);
    }
    pass?.end();
    this.#device.queue.submit([encoder.finish()]);
  }

  // Behind what is submitted before and in front of what comes now: one buffer serves all calls.
  #writeWords(words) {
    if (!this.#words || this.#words.size < words.byteLength) {
      this.#words?.destroy();
      this.#words = this.#buffer(Math.ceil(Math.max(words.byteLength, 1) / 4096) * 4096, UNIFORM | COPY_DST);
    }
    this.#device.queue.writeBuffer(this.#words, 0, words);
    return this.#words;
  }
}
