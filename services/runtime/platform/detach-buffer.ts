/**
 * Frees the memory of a buffer at once; the buffer is empty afterwards. Only for buffers that the
 * caller created and no other code uses. Garbage collection would start only after 64 MB of such
 * buffers. Pooled buffers and views with an offset are left alone; a view at offset 0 frees all of
 * its memory.
 */
export function detachBuffer (bytes: Buffer): void {
  const { buffer, byteOffset } = bytes
  const isShared = buffer.byteLength === Buffer.poolSize || byteOffset > 0
  if (buffer instanceof ArrayBuffer && !buffer.detached && !isShared) buffer.transfer(0)
}
