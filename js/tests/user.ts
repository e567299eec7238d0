// js/tests/user.ts: a program in strict TypeScript, which a compiler checks against the module's types
import { Archive, HologramError, Tensor, open, tensor } from "../hologram.js";
import type { Code, DType, Method, OpenOptions, Signature } from "../hologram.js";
import { WordPiece } from "../wordpiece.js";
import { openInWorker } from "../worker.js";
import type { RemoteArchive } from "../worker.js";

const control = new AbortController();
const options: OpenOptions = {
  device: "auto", verify: "index", signal: control.signal, runtime: new URL("https://example.org/hologram_rt.wasm"),
  onProgress: ({ stage, loaded, total }) => console.log(stage === "kernels" ? `${loaded}` : (loaded / total).toFixed(1)),
};

export async function first(archive: Archive | RemoteArchive, method: Method): Promise<number | bigint | undefined> {
  const shape = (s: Signature): number[] => s.shape.map((n) => (typeof n === "number" ? n : method.sizes[n]?.[0] ?? 1));
  const inputs: Record<string, Tensor> = {};
  for (const input of method.inputs) inputs[input.name] = tensor([[1, 2n, true]], input.dtype, shape(input));
  const results = await archive.run(inputs, "forward");
  await archive.reset();
  const named: string = archive.reason ?? archive.adapter ?? archive.device;
  console.log(named, archive.bytes, archive.targets.join(), archive.producer, archive.fingerprint);
  for (const [name, { dtype, bytes, state }] of Object.entries(archive.tensors)) console.log(name, dtype, bytes, state);
  return results["result0"]?.data[0];
}

export async function main(words: WordPiece): Promise<Code | undefined> {
  try {
    const archive = await open(new Blob([]), options);
    const remote = await openInWorker("model.holo", { device: "wasm" });
    const { ids, mask } = words.batch(["text"], 16);
    await remote.run({ ids, mask, more: new Float32Array(3), most: [[1, 2], [3, 4]] });
    archive.close();
    remote.close();
  } catch (error) {
    if (error instanceof HologramError) return error.code;
    throw error;
  }
  return undefined;
}

const dtype: DType = "bfloat16";
const made = new Tensor(dtype, [1, 2], new Uint16Array(2));
// What is wrong is refused, each line for itself.
// @ts-expect-error no dtype
tensor([1], "float8");
// @ts-expect-error no device
open("model.holo", { device: "cpu" });
// @ts-expect-error no text
tensor("1");
// @ts-expect-error only read
made.dtype = "int8";
// @ts-expect-error made by open() alone
new Archive();
// @ts-expect-error no GPU goes to a worker
openInWorker("model.holo", { gpu: {} });
// @ts-expect-error no source
open(5);
