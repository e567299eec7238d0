// js/tests/damage.test.mjs: archives with wrong bits in every part end in a clear error, or in values
//
// HOLOGRAM_CASES: a folder with damaged.bin and damaged.json, made by tests/torch/damaged.py.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { HologramError, open, tensor } from "../hologram.js";
import { nothing } from "./nothing.mjs";

const folder = process.env.HOLOGRAM_CASES;

test("damage in every part is refused, and hostile files harm nothing", async () => {
  const { ids, files } = JSON.parse(await readFile(`${folder}/damaged.json`, "utf8"));
  const all = await readFile(`${folder}/damaged.bin`), gpu = nothing(), ends = {};
  for (const { words, honest, begin, bytes } of files) {
    let end = "values";
    try {
      const archive = await open(all.subarray(begin, begin + bytes), { device: "webgpu", gpu, verify: honest ? "full" : "index" });
      await archive.run({ ids: tensor(ids, "int64") });
      archive.close();
    } catch (error) {
      assert.ok(error instanceof HologramError, `${words}: ${error?.stack}`);
      assert.doesNotMatch(error.message, /runtime stopped|broke the runtime|beyond a buffer/, words);
      end = error.code;
    }
    assert.ok(!honest || end === "corrupt" || end === "unsupported", `${words}: ${end}`);
    ends[end] = (ends[end] ?? 0) + 1;
  }
  assert.ok(ends.corrupt > 20 && ends.values > 5, JSON.stringify(ends));
});
