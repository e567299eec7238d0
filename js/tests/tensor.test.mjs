// js/tests/tensor.test.mjs: numbers become elements of a dtype, or an error
import assert from "node:assert/strict";
import { test } from "node:test";

import { HologramError, Tensor, tensor } from "../hologram.js";

// What the bits of a float of 16 bits are, by IEEE 754.
function value(bits, exponentBits, fractionBits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> fractionBits) & (2 ** exponentBits - 1), bias = 2 ** (exponentBits - 1) - 1;
  const fraction = bits & (2 ** fractionBits - 1);
  if (exponent === 2 ** exponentBits - 1) return fraction ? NaN : sign * Infinity;
  return sign * ((exponent ? 2 ** fractionBits : 0) + fraction) * 2 ** (Math.max(exponent, 1) - bias - fractionBits);
}

for (const [dtype, ...format] of [["float16", 5, 10], ["bfloat16", 8, 7]])
  test(`numbers are rounded to the nearest ${dtype}`, () => {
    const infinity = (2 ** format[0] - 1) << format[1], all = Array.from({ length: infinity }, (_, bits) => value(bits, ...format));
    assert.deepEqual([...tensor(all, dtype).data], [...all.keys()]);
    const [even, up, down] = [[], [], []];
    for (let bits = 0; bits < infinity - 1; ++bits) {
      const middle = (all[bits] + all[bits + 1]) / 2;
      even.push(-middle);
      up.push(middle * (1 + 2 ** -50));
      down.push(middle * (1 - 2 ** -50));
    }
    assert.deepEqual([...tensor(even, dtype).data], even.map((_, bits) => 0x8000 | (bits + (bits & 1))));
    assert.deepEqual([...tensor(up, dtype).data], up.map((_, bits) => bits + 1));
    assert.deepEqual([...tensor(down, dtype).data], down.map((_, bits) => bits));
    const most = all[infinity - 1], ends = [-0, Infinity, -Infinity, 1e300, most, most * (1 + 2 ** -(format[1] + 3)), 0, true, 2n];
    const bits = [0x8000, infinity, 0x8000 | infinity, infinity, infinity - 1, infinity - 1, 0, all.indexOf(1), all.indexOf(2)];
    assert.deepEqual([...tensor(ends, dtype).data], bits);
    assert.ok(Number.isNaN(value(tensor([NaN], dtype).data[0], ...format)));
  });

const right = [
  [[1, 0, true], "bool", [1, 0, 1]], [[-128, 127n], "int8", [-128, 127]], [[2 ** 53, -1], "int64", [2n ** 53n, -1n]],
  [[[1, 2], [3, 4]], "uint8", [1, 2, 3, 4]], [[0.1, NaN], "float32", [Math.fround(0.1), NaN]], [[], "float64", []], [7, "int16", [7]],
];
test("numbers that a dtype has", () => {
  for (const [values, dtype, data] of right) assert.deepEqual([...tensor(values, dtype).data], data, dtype);
});

const wrong = [
  [[300], "uint8", /300 is no uint8/], [[-1], "uint64", /-1 is no uint64/], [[1.5], "int64", /1.5 is no int64/],
  [[2n ** 63n], "int64", /9223372036854775808 is no int64/], [[NaN], "int32", /NaN is no int32/], [[2], "bool", /2 is no bool/],
  [["1"], "float32", /"1" is no float32/], [[null], "float16", /null is no float16/], [[undefined], "float64", /undefined is no/],
  [[{}], "int8", /\[object Object\] is no int8/], [[[1, 2], [3]], "int8", /different lengths/], [[1], "int128", /dtype "int128"/],
  [[1], "toString", /dtype "toString"/],
];
test("numbers that it has not", () => {
  const refused = (words) => (error) => error instanceof HologramError && error.code === "invalid_argument" && words.test(error.message);
  for (const [values, dtype, words] of wrong) assert.throws(() => tensor(values, dtype), refused(words), `${dtype}: ${words}`);
  for (const shape of [[-1], [1.5], [NaN], 1, [2]])
    assert.throws(() => new Tensor("int8", shape, new Int8Array(1)), refused(/shape/), JSON.stringify(shape));
});
