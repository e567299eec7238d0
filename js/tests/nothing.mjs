// js/tests/nothing.mjs: a WebGPU that computes nothing, holds the runtime to its buffers, and counts

/** → a GPU object; `counts`: what lives and what was done on its device. */
export function nothing() {
  const counts = { buffers: 0, bytes: 0, written: 0, submissions: 0, groups: 0, made: 0 };
  const inside = (buffer, offset, bytes) => {
    if (buffer.gone) throw new RangeError("a buffer that is destroyed");
    if (!(offset % 4 === 0 && bytes % 4 === 0 && offset + bytes <= buffer.size)) throw new RangeError("beyond a buffer");
  };
  const createBuffer = ({ size }) => {
    counts.buffers += 1;
    counts.made += 1;
    counts.bytes += size;
    return {
      size, gone: false, mapAsync: async () => {}, getMappedRange: (_, bytes) => new ArrayBuffer(bytes), unmap() {},
      destroy() {
        if (!this.gone) (counts.buffers -= 1), (counts.bytes -= size);
        this.gone = true;
      },
    };
  };
  const pass = { setPipeline() {}, setBindGroup() {}, dispatchWorkgroups() {}, end() {} };
  const encoder = {
    beginComputePass: () => pass, finish: () => ({}), clearBuffer: inside,
    copyBufferToBuffer: (from, at, to, toAt, bytes) => (inside(from, at, bytes), inside(to, toAt, bytes)),
  };
  const limits = { maxStorageBuffersPerShaderStage: 10, maxStorageBufferBindingSize: 1 << 27, maxBufferSize: 1 << 28 };
  const device = {
    limits, lost: new Promise(() => {}), pushErrorScope() {}, popErrorScope: async () => null, createBuffer,
    destroy: () => Object.assign(counts, { buffers: 0, bytes: 0 }),
    queue: {
      submit: () => (counts.submissions += 1),
      writeBuffer: (buffer, at, data, _from, bytes) => {
        inside(buffer, at, bytes ?? data.byteLength);
        counts.written += bytes ?? data.byteLength;
      },
    },
    createCommandEncoder: () => encoder, createShaderModule: () => ({}),
    createBindGroup: () => ((counts.groups += 1), {}),
    createComputePipelineAsync: async () => ({ getBindGroupLayout: () => ({}) }),
  };
  return { counts, requestAdapter: async () => ({ limits, requestDevice: async () => device }) };
}
