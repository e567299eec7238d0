// js/wordpiece.d.ts: the types of js/wordpiece.js
import type { Tensor } from "./hologram.js";

export class WordPiece {
  /** `vocabulary`: the text of a vocab.txt. Throws HologramError where it lacks a special token. */
  constructor(vocabulary: string, options?: { lowercase?: boolean });
  encode(text: string, most?: number): number[];
  batch(texts: readonly string[], most?: number): { ids: Tensor; mask: Tensor };
}
