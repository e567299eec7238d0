// js/tensor.js: tensors and errors of js/hologram.js

/** What went wrong, as the runtime tells it; `code` is one of the words below. */
export class HologramError extends Error {
  constructor(code, message) {
    super(message);
    this.name = "HologramError";
    this.code = code;
  }
}

export const CODES = ["ok", "invalid_argument", "out_of_memory", "not_found", "unsupported", "unavailable", "corrupt", "io",
  "division_by_zero", "internal"];

/** By dtype, the arrays that hold its elements; float16 and bfloat16 as their bits. */
export const ARRAYS = {
  bool: Uint8Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array,
  uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, float16: Uint16Array, bfloat16: Uint16Array,
  float32: Float32Array, float64: Float64Array,
};

export function fail(code, message) {
  throw new HologramError(code, message);
}

function arrayOf(dtype, where) {
  if (!Object.hasOwn(ARRAYS, dtype))
    fail("invalid_argument", `${where}: dtype "${dtype}", expected one of ${Object.keys(ARRAYS).join(", ")}`);
  return ARRAYS[dtype];
}

/** An array with a shape, row-major. `data`: as ARRAYS says for the dtype. */
export class Tensor {
  constructor(dtype, shape, data) {
    const type = arrayOf(dtype, "Tensor");
    const length = lengthOf(shape);
    if (!(data instanceof type)) fail("invalid_argument", `Tensor: data of ${dtype} are a ${type.name}`);
    if (data.length !== length)
      fail("invalid_argument", `Tensor: the shape [${shape}] has ${length} elements, the data have ${data.length}`);
    this.dtype = dtype;
    this.shape = [...shape];
    this.data = data;
  }
}

function lengthOf(shape) {
  if (!Array.isArray(shape) || !shape.every((n) => Number.isSafeInteger(n) && n >= 0))
    fail("invalid_argument", `Tensor: the shape is an array of sizes, got ${JSON.stringify(shape)}`);
  return shape.reduce((n, size) => n * size, 1);
}

// The bits of the nearest float of 16 bits, ties to even. By powers of two alone, which are exact.
function nearest(x, exponentBits, fractionBits) {
  const bias = 2 ** (exponentBits - 1) - 1, infinity = (2 ** exponentBits - 1) << fractionBits;
  if (Number.isNaN(x)) return infinity | (1 << (fractionBits - 1));
  const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0, size = Math.abs(x);
  if (size === Infinity) return sign | infinity;
  let exponent = Math.max(Math.floor(Math.log2(size)), 1 - bias);
  if (exponent > 1 - bias && 2 ** exponent > size) --exponent; // the logarithm is rounded
  const steps = size / 2 ** (exponent - fractionBits), below = Math.floor(steps), rest = steps - below;
  const whole = below + (rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? 1 : 0);
  return sign | Math.min(whole + (exponent + bias - 1) * 2 ** fractionBits, infinity);
}

// What makes an element of a number; throws where that is none of the dtype's.
function elementOf(dtype, type) {
  const one = new type(1), wide = typeof one[0] === "bigint", whole = !dtype.includes("float");
  const words = (value) => `${typeof value === "string" ? JSON.stringify(value) : String(value)} is no ${dtype}`;
  return (value) => {
    if (!["number", "bigint", "boolean"].includes(typeof value)) fail("invalid_argument", `tensor: ${words(value)}`);
    const number = Number(value);
    if (dtype === "float16") return nearest(number, 5, 10);
    if (dtype === "bfloat16") return nearest(number, 8, 7);
    if (whole && typeof value === "number" && !Number.isInteger(value)) fail("invalid_argument", `tensor: ${words(value)}`);
    one[0] = wide ? BigInt(value) : number;
    if (whole && (one[0] != value || (dtype === "bool" && one[0] > 1))) fail("invalid_argument", `tensor: ${words(value)}`);
    return one[0];
  };
}

/** A tensor of numbers that lie in arrays of arrays, or in a flat array where a shape is given. */
export function tensor(values, dtype = "float32", shape = undefined) {
  const type = arrayOf(dtype, "tensor");
  if (ArrayBuffer.isView(values) && values instanceof type) return new Tensor(dtype, shape ?? [values.length], values);
  const sizes = [];
  for (let part = values; Array.isArray(part) || ArrayBuffer.isView(part); part = part[0]) {
    sizes.push(part.length);
    if (part.length === 0) break;
  }
  const flat = [], element = elementOf(dtype, type);
  const walk = (part, depth) => {
    if (depth === sizes.length) return flat.push(element(part));
    if (part?.length !== sizes[depth]) fail("invalid_argument", "tensor: the arrays are of different lengths");
    for (const inner of part) walk(inner, depth + 1);
  };
  walk(values, 0);
  return new Tensor(dtype, shape ?? sizes, type.from(flat));
}

/** `given` as a tensor of `dtype`, that of an input; `where` begins the errors. */
export function asTensor(given, dtype, where) {
  const named = (words) => fail("invalid_argument", `${where}: ${words}`);
  if (given === undefined || given === null) named(`is ${given}`);
  if (given instanceof Tensor && given.dtype !== dtype) named(`has the dtype ${given.dtype}, expected ${dtype}`);
  let made;
  try {
    // Shape and data may have changed since the tensor was made.
    made = given instanceof Tensor ? new Tensor(given.dtype, given.shape, given.data) : tensor(given, dtype);
  } catch (error) {
    if (!(error instanceof HologramError)) throw error;
    named(error.message.replace(/^tensor: /i, ""));
  }
  if (dtype === "bool") {
    const wrong = made.data.find((value) => value > 1);
    if (wrong !== undefined) named(`${wrong} is no bool`);
  }
  return made;
}
