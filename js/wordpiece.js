// js/wordpiece.js: texts to token ids as BERT's tokenizers make them, from the lines of a vocab.txt
import { HologramError, Tensor } from "./hologram.js";

const CONTROL = /[\p{C}\ufffd]/gu; // but white space, which is replaced before
const MARKS = /\p{Mn}/gu;
const IDEOGRAPH =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu;
// Every ASCII character that is no letter, digit, space or control character counts.
const PIECES = /[\p{P}$+<=>^`|~]|[^\s\p{P}$+<=>^`|~]+/gu;
const LONGEST_WORD = 100;

export class WordPiece {
  #numbers;
  #lowercase;

  /** `vocabulary`: the text of vocab.txt, a token a line; the number of a line is its token's. */
  constructor(vocabulary, { lowercase = true } = {}) {
    this.#numbers = new Map(vocabulary.trimEnd().split(/\r?\n/).map((token, number) => [token, number]));
    this.#lowercase = lowercase;
    for (const token of ["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
      if (!this.#numbers.has(token))
        throw new HologramError("invalid_argument", `WordPiece: the vocabulary lacks ${token}`);
  }

  /** The ids of a text between [CLS] and [SEP], at most `most` of them. */
  encode(text, most = 256) {
    const ids = [];
    for (const word of this.#normal(text).match(PIECES) ?? []) {
      if (ids.length >= most - 2) break;
      ids.push(...this.#pieces(word));
    }
    const id = (token) => this.#numbers.get(token);
    return [id("[CLS]"), ...ids.slice(0, most - 2), id("[SEP]")];
  }

  /** Ids and mask, int64 [texts, longest text], the shorter ones filled up with [PAD]. */
  batch(texts, most = 256) {
    const all = texts.map((text) => this.encode(text, most));
    const length = Math.max(0, ...all.map((ids) => ids.length));
    const filled = (value) => BigInt64Array.from(all.flatMap((ids) => Array.from({ length }, (_, i) => value(ids, i))), BigInt);
    const pad = this.#numbers.get("[PAD]"), shape = [all.length, length];
    return {
      ids: new Tensor("int64", shape, filled((ids, i) => ids[i] ?? pad)),
      mask: new Tensor("int64", shape, filled((ids, i) => (i < ids.length ? 1 : 0))),
    };
  }

  #normal(text) {
    const spaced = text.replace(/[\t\n\r]/g, " ").replace(CONTROL, "").replace(IDEOGRAPH, " $& ");
    return this.#lowercase ? spaced.normalize("NFD").replace(MARKS, "").toLowerCase() : spaced;
  }

  // The longest token that the word begins with, then of the rest, marked as one.
  #pieces(word) {
    const letters = Array.from(word);
    if (letters.length > LONGEST_WORD) return [this.#numbers.get("[UNK]")];
    const ids = [];
    for (let from = 0; from < letters.length; ) {
      let to = letters.length, id;
      for (; to > from && id === undefined; --to)
        id = this.#numbers.get((from > 0 ? "##" : "") + letters.slice(from, to).join(""));
      if (id === undefined) return [this.#numbers.get("[UNK]")];
      ids.push(id);
      from = to + 1;
    }
    return ids;
  }
}
