/**
 * Gives the memory of bytes back at once; they are empty from then on. For bytes that the caller
 * made and that nobody else has: those of many messages a second would otherwise stand until the
 * runtime looks for them, which it does once 64 MB have gathered. Small buffers, which share their
 * memory, are left to it, and so are views that do not begin where their memory begins; one that
 * does takes all of it along.
 */
export function detachBuffer (bytes: Buffer): void {
  const { buffer, byteOffset } = bytes
  const isShared = buffer.byteLength === Buffer.poolSize || byteOffset > 0
  if (buffer instanceof ArrayBuffer && !buffer.detached && !isShared) buffer.transfer(0)
}
