// js/tests/wordpiece.test.mjs: the token ids are those of transformers' tokenizer
//
// HOLOGRAM_CASES: a folder with vocab.txt and tokens.json (tests/torch/test_web.py); without them nothing is compared.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { HologramError } from "../hologram.js";
import { WordPiece } from "../wordpiece.js";

const folder = process.env.HOLOGRAM_CASES;
const skip = existsSync(`${folder}/tokens.json`) ? false : "no tokenizer to compare with";

test("the ids are transformers'", { skip }, () => {
  const words = new WordPiece(readFileSync(`${folder}/vocab.txt`, "utf8"));
  const { texts, ids } = JSON.parse(readFileSync(`${folder}/tokens.json`, "utf8"));
  texts.forEach((text, i) => assert.deepEqual(words.encode(text), ids[i], JSON.stringify(text)));
  const { ids: all, mask } = words.batch(texts.slice(0, 3));
  assert.deepEqual(all.shape, [3, Math.max(...ids.slice(0, 3).map((row) => row.length))]);
  assert.equal(Number(mask.data.reduce((a, b) => a + b)), ids.slice(0, 3).flat().length);
});

test("a small vocabulary", () => {
  const words = new WordPiece("[PAD]\n[UNK]\n[CLS]\n[SEP]\nhot\n##el\n##s\n!\n");
  assert.deepEqual(words.encode("Hotels! Hôtel x"), [2, 4, 5, 6, 7, 4, 5, 1, 3]);
  assert.deepEqual(words.encode("hotels hotels", 4), [2, 4, 5, 3]);
  assert.throws(() => new WordPiece("hot\n"), HologramError);
});
