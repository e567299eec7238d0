// js/bytes.js: reads archives from servers, files and memory for js/hologram.js
import { fail } from "./tensor.js";

export const inNode = typeof process !== "undefined" && !!process.versions?.node;

/** Throws where a signal says that no one waits any more. */
export function goOn(signal, where) {
  if (signal?.aborted) fail("cancelled", `${where}: ${signal.reason?.message ?? signal.reason}`);
}

// What a promise of bytes gives; its errors, with the name of what was read.
async function received(promise, what, signal) {
  try {
    return await promise;
  } catch (error) {
    goOn(signal, what);
    return fail("io", `${what}: ${[error.message, error.cause?.message].filter(Boolean).join(": ")}`);
  }
}

async function fileOf(text, signal) {
  const { readFile } = await import("node:fs/promises");
  try {
    return await readFile(text.startsWith("file:") ? new URL(text) : text, { signal });
  } catch (error) {
    goOn(signal, text);
    return fail(error.code === "ENOENT" ? "not_found" : "io", `${text}: ${error.message}`);
  }
}

/** A Response, or bytes, for what names or holds them. */
export async function sourceOf(source, what, signal = undefined) {
  goOn(signal, what);
  const is = (name) => name in globalThis && source instanceof globalThis[name];
  if (is("ArrayBuffer") || is("SharedArrayBuffer")) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  if (is("Blob")) return new Uint8Array(await received(source.arrayBuffer(), what, signal));
  if (!is("Response") && !is("Request") && !is("URL") && typeof source !== "string")
    fail("invalid_argument", `open: ${what} is ${source}, expected a URL, a Response, a Blob or bytes`);
  const text = source.url ?? String(source);
  if (inNode && !is("Response") && !is("Request") && !/^(https?|data|blob):/.test(text)) return fileOf(text, signal);
  const response = is("Response") ? source : await received(fetch(source, { signal }), text, signal);
  if (!response.ok)
    fail(response.status === 404 ? "not_found" : "io", `${what} ${text}: the server says ${response.status}`);
  return response;
}

/** All the bytes of what sourceOf() gave. */
export async function bytesOf(source, what, signal = undefined) {
  return source instanceof Uint8Array ? source : new Uint8Array(await received(source.arrayBuffer(), what, signal));
}

/** Reads what sourceOf() gave into `room(bytes)`, as far as its length is told; onProgress(loaded, total). */
export async function readInto(source, room, onProgress, signal = undefined) {
  const what = `the archive ${source.url ?? ""}`.trim();
  // The length that is told is that of what is sent, which may be compressed.
  const encoded = source.headers?.get("content-encoding");
  const told = encoded && encoded !== "identity" ? 0 : Number(source.headers?.get("content-length") ?? 0);
  if (!told || !source.body) {
    const bytes = await bytesOf(source, what, signal);
    goOn(signal, what);
    room(bytes.length)().set(bytes);
    onProgress?.(bytes.length, bytes.length);
    return;
  }
  const to = room(told);
  const reader = source.body.getReader();
  const stop = () => reader.cancel().catch(() => {});
  signal?.addEventListener("abort", stop, { once: true });
  let loaded = 0;
  try {
    for (;;) {
      const { done, value } = await received(reader.read(), `${what}, after ${loaded} of ${told} bytes`, signal);
      goOn(signal, what);
      if (done) break;
      if (loaded + value.length > told) fail("io", `${what}: the server sends more than the ${told} bytes that it told`);
      to().set(value, loaded);
      loaded += value.length;
      onProgress?.(loaded, told);
    }
  } catch (error) {
    stop();
    throw error;
  } finally {
    signal?.removeEventListener("abort", stop);
  }
  if (loaded !== told) fail("io", `${what}: the server sent ${loaded} of ${told} bytes`);
}
