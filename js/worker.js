// js/worker.js: archives in a worker of their own, so that a page stays alive while they load and run
//
// Both sides: openInWorker() is called by pages, serve() runs in the worker, which this file is too.
import { HologramError, Tensor, open } from "./hologram.js";
import { fail } from "./tensor.js";

const NAME = "hologram archive";

/** open() of hologram.js, in a worker: an archive whose reset() gives a promise too. An AbortSignal ends the worker. */
export async function openInWorker(source, { onProgress, signal, runtime, gpu, ...options } = {}) {
  if (gpu !== undefined) fail("invalid_argument", "openInWorker: gpu stays with the thread that it is of; a worker has its own");
  const remote = new Remote(onProgress, signal);
  try {
    const given = { ...options, ...(runtime === undefined ? {} : { runtime: await sendable(runtime) }) };
    const described = await remote.ask("open", [await sendable(source), given]);
    return Object.assign(new RemoteArchive(remote), described);
  } catch (error) {
    remote.end(error);
    throw error;
  }
}

// Addresses are the page's, and bytes stay the caller's.
async function sendable(source) {
  const here = globalThis.document?.baseURI ?? globalThis.location?.href;
  const is = (name) => name in globalThis && source instanceof globalThis[name];
  if (is("Response")) {
    if (!source.ok) fail(source.status === 404 ? "not_found" : "io", `${source.url}: the server says ${source.status}`);
    return new Uint8Array(await source.arrayBuffer().catch((error) => fail("io", `${source.url}: ${error.message}`)));
  }
  if (is("Request")) return source.url;
  return typeof source === "string" || is("URL") ? new URL(source, here).href : source;
}

/** The page's end. */
class Remote {
  #worker;
  #waiting = new Map(); // by number: what resolves and rejects
  #number = 0;
  #ended = null;

  constructor(onProgress, signal) {
    if (typeof Worker === "undefined") fail("unavailable", "openInWorker: there are no workers here");
    const cancel = () => this.end(new HologramError("cancelled", `open: ${signal.reason?.message ?? signal.reason}`));
    this.#worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: NAME });
    this.#worker.onmessage = ({ data: { number, progress, value, error } }) => {
      if (progress) return void onProgress?.(progress);
      if (number === 1) signal?.removeEventListener("abort", cancel); // it is open
      const { resolve, reject } = this.#waiting.get(number);
      this.#waiting.delete(number);
      if (error) reject(new HologramError(error.code, error.message));
      else resolve(value);
    };
    this.#worker.onerror = (event) => {
      event.preventDefault?.();
      this.end(new HologramError("unavailable", `the worker stopped: ${event.message || "worker.js could not be loaded"}`));
    };
    if (signal?.aborted) cancel();
    signal?.addEventListener("abort", cancel, { once: true });
  }

  ask(name, args) {
    return new Promise((resolve, reject) => {
      if (this.#ended) return reject(this.#ended);
      this.#waiting.set(++this.#number, { resolve, reject });
      try {
        this.#worker.postMessage({ number: this.#number, name, args });
      } catch (error) {
        this.#waiting.delete(this.#number);
        reject(new HologramError("invalid_argument", `${name}: ${error.message}`)); // what no thread can be sent
      }
    });
  }

  /** Ends the worker; what is waited for rejects with `error`. */
  end(error) {
    this.#ended ??= error;
    this.#worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(this.#ended);
    this.#waiting.clear();
  }
}

class RemoteArchive {
  #remote;

  constructor(remote) {
    this.#remote = remote;
  }

  async run(inputs, method = undefined) {
    const results = await this.#remote.ask("run", [mapped(inputs ?? {}, plain), method]);
    return mapped(results, ({ dtype, shape, data }) => new Tensor(dtype, shape, data));
  }

  async reset() {
    await this.#remote.ask("reset", []);
  }

  close() {
    this.#remote.end(new HologramError("invalid_argument", "the archive is closed"));
  }
}

const mapped = (object, change) => Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]));
const plain = (value) => (value instanceof Tensor ? { tensor: { ...value } } : { value });

/** The worker's end: runs what is asked for, one after the other where WebAssembly runs it. */
function serve() {
  let archive;
  const calls = {
    async open(source, options) {
      archive = await open(source, { ...options, onProgress: (progress) => postMessage({ progress }) });
      return { ...archive };
    },
    async run(inputs, method) {
      const given = mapped(inputs, ({ tensor, value }) => (tensor ? Object.assign(Object.create(Tensor.prototype), tensor) : value));
      return mapped(await archive.run(given, method), (result) => ({ ...result }));
    },
    reset: async () => archive.reset(),
  };
  globalThis.onmessage = async ({ data: { number, name, args } }) => {
    try {
      const value = await calls[name](...args);
      const buffers = name === "run" ? Object.values(value).map(({ data }) => data.buffer) : [];
      postMessage({ number, value }, buffers);
    } catch (error) {
      postMessage({ number, error: { code: error.code ?? "internal", message: error.message } });
    }
  };
}

if (typeof DedicatedWorkerGlobalScope !== "undefined" && globalThis.name === NAME) serve();
