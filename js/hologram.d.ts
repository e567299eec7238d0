// js/hologram.d.ts: the types of js/hologram.js

export type DType =
  | "bool" | "int8" | "uint8" | "int16" | "uint16" | "int32" | "uint32" | "int64" | "uint64"
  | "float16" | "bfloat16" | "float32" | "float64";

/** float16 and bfloat16: their bits. */
export type Elements =
  | Uint8Array | Int8Array | Int16Array | Uint16Array | Int32Array | Uint32Array | BigInt64Array | BigUint64Array
  | Float32Array | Float64Array;

export type Code =
  | "invalid_argument" | "out_of_memory" | "not_found" | "unsupported" | "unavailable" | "corrupt" | "io"
  | "division_by_zero" | "internal" | "cancelled";

export class HologramError extends Error {
  constructor(code: Code, message: string);
  readonly code: Code;
}

/** An array in row-major order. Throws HologramError where dtype, shape and data do not agree. */
export class Tensor {
  constructor(dtype: DType, shape: readonly number[], data: Elements);
  readonly dtype: DType;
  readonly shape: number[];
  readonly data: Elements;
}

export type Numbers = number | bigint | boolean | Elements | readonly Numbers[];

/**
 * A tensor of nested arrays of numbers, or of a flat one with a shape. Numbers are rounded to the nearest of a float dtype; one that
 * no integer dtype has, or bool, is an error. Arrays of the dtype's own type are taken as they are, without a copy.
 */
export function tensor(values: Numbers, dtype?: DType, shape?: readonly number[]): Tensor;

export interface Signature {
  name: string;
  dtype: DType;
  /** A size that calls choose is an expression, as in "2*batch". */
  shape: (number | string)[];
}

export interface Method {
  inputs: Signature[];
  results: Signature[];
  /** By name of a size that calls choose: the least and the most that it may be. */
  sizes: Record<string, [number, number]>;
}

export interface OpenOptions {
  /** Called while the archive is read, in bytes, then while its kernels are made for a GPU. */
  onProgress?: (progress: { stage: "archive" | "kernels"; loaded: number; total: number }) => void;
  /** "full" (the default): everything is compared with its checksums; "index": what is parsed or run, not weights. */
  verify?: "full" | "index";
  /**
   * "webgpu": rejects with the code "unavailable", saying why, where archive or machine lack something; "wasm";
   * "auto" (the default): WebGPU where there is a GPU and the archive's methods are WGSL, else WebAssembly.
   */
  device?: "auto" | "webgpu" | "wasm";
  /** Ends loading: open() rejects with the code "cancelled". */
  signal?: AbortSignal;
  /** An implementation of WebGPU, a GPU object; default: navigator.gpu. */
  gpu?: unknown;
  /** Where hologram_rt.wasm is; default: beside the module. */
  runtime?: string | URL | ArrayBuffer | Uint8Array | Response;
}

export type Source = string | URL | Request | Response | Blob | ArrayBuffer | Uint8Array;

/** Opens an archive. Rejects with HologramError, of the code "corrupt" for damaged files. */
export function open(source: Source, options?: OpenOptions): Promise<Archive>;

export class Archive {
  private constructor();
  /** What runs its kernels. */
  readonly device: "wasm" | "webgpu";
  /** The GPU's name. */
  readonly adapter: string | null;
  /** Why the device "auto" is "wasm". */
  readonly reason: string | null;
  readonly producer: string;
  /** Names the whole content, as in Python. */
  readonly fingerprint: string;
  readonly bytes: number;
  /** What it has code for. */
  readonly targets: string[];
  readonly methods: Record<string, Method>;
  readonly tensors: Record<string, { dtype: DType; shape: number[]; bytes: number; state: boolean }>;

  /** Calls a method ("forward", or the only one) with inputs by name; results by name. */
  run(inputs: Record<string, Tensor | Numbers>, method?: string): Promise<Record<string, Tensor>>;
  /** State as it is in the file. */
  reset(): void;
  /** Gives its memory back. */
  close(): void;
}
