// js/worker.d.ts: the types of js/worker.js
import type { Archive, Numbers, OpenOptions, Source, Tensor } from "./hologram.js";

/** An archive in a worker: as in hologram.js, but that what it is asked for comes later. */
export type RemoteArchive = Omit<Archive, "run" | "reset" | "close"> & {
  run(inputs: Record<string, Tensor | Numbers>, method?: string): Promise<Record<string, Tensor>>;
  reset(): Promise<void>;
  /** Ends the worker; calls that are not through reject. */
  close(): void;
};

/**
 * Opens an archive in a worker of its own, which loads and runs it while the page goes on. Addresses are relative to the
 * page. Rejects with HologramError, of the code "unavailable" where there are no workers.
 */
export function openInWorker(source: Source, options?: Omit<OpenOptions, "gpu">): Promise<RemoteArchive>;
