import type { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import type { FairPool, PoolReservation } from './limits.ts'
import { CHECK_EVERY_MS } from './http-server.ts'

/** A body up to this size that reserves no memory may be sent at any speed. */
export const SMALL_BODY_BYTES = 64 * 1_024

/** Memory is reserved in such steps, ahead of what has arrived. */
const STEP_BYTES = 256 * 1_024

/** How fast a body must arrive while memory is reserved for it. */
export type MinimumThroughput = {
  /** There is no minimum in this time at the beginning. */
  readonly graceMs: number
  readonly bytesPerSecond: number
  /** A body with a Content-Length must be fast enough to be complete within this time. */
  readonly completeWithinMs: number
}

type BodyFault = 'slow' | 'no memory'

type BodyGuardOptions = {
  /** The memory for all bodies, in bytes, which names share. */
  readonly pool: FairPool
  readonly minimum: MinimumThroughput
  /** The largest body, once it is decompressed. */
  readonly maxBytes: number
  /** Ends a request whose body is too slow, or whose memory is needed by a name with less. */
  readonly end: (request: FastifyRequest, why: BodyFault) => void
}

/**
 * Guards the memory that bodies take while they arrive. It is reserved as their bytes come, after
 * they are decompressed, unless a route reserves it before; so what only announces a body has none.
 * A request is ended when its body is slower than the minimum throughput, or when there is no
 * memory for it. A complete body keeps its memory until the response, even if the client has
 * disconnected; one that still arrives may lose it to a name that has less.
 */
export class BodyGuard {
  readonly #options: BodyGuardOptions
  readonly #bodies = new WeakMap<FastifyRequest, GuardedBody>()

  constructor (options: BodyGuardOptions) {
    this.#options = options
  }

  /**
   * The empty reservation of a request. The caller releases it with the response; a client that
   * disconnects earlier does not, because its complete body is still processed.
   */
  open (request: FastifyRequest, name: string): PoolReservation {
    const body = new GuardedBody(request, name, this.#options)
    this.#bodies.set(request, body)
    return body.reservation
  }

  /**
   * Watches the body of a request that was opened, synchronously before its reader is attached.
   * `decoded` is the decompressed body, which may grow beyond what arrives.
   */
  watch (request: FastifyRequest, arriving: Readable, decoded = arriving): void {
    this.#bodies.get(request)?.watch(arriving, decoded)
  }

  /** Releases the memory of a request. Idempotent. */
  release (request: FastifyRequest): void {
    this.#bodies.get(request)?.release()
  }
}

/**
 * One body with its reservation. Time is counted by timer ticks instead of a clock, so that a
 * blocked event loop makes no client slow.
 */
class GuardedBody {
  readonly reservation: PoolReservation
  readonly #request: FastifyRequest
  readonly #options: BodyGuardOptions
  /** The Content-Length; undefined for a chunked body. */
  readonly #length: number | undefined
  #arrivedBytes = 0
  #elapsedMs = 0
  #arriving: Readable | undefined
  #stop = () => {}

  constructor (request: FastifyRequest, name: string, options: BodyGuardOptions) {
    this.#request = request
    this.#options = options
    this.#length = contentLength(request)
    this.reservation = options.pool.open(name, () => this.#end('no memory'))
  }

  watch (arriving: Readable, decoded: Readable): void {
    this.#arriving = arriving
    const { reservation } = this
    const { minimum, maxBytes } = this.#options
    const isPlain = arriving === decoded
    const isSmall = isPlain && this.#length !== undefined && this.#length <= SMALL_BODY_BYTES
    if (isSmall && reservation.amount === 0) return
    const mostBytes = isPlain ? this.#length ?? maxBytes : maxBytes
    let decodedBytes = 0
    const count = (piece: Buffer) => { this.#arrivedBytes += piece.length }
    const reserve = (piece: Buffer) => {
      decodedBytes += piece.length
      if (decodedBytes <= Math.max(reservation.amount, SMALL_BODY_BYTES)) return
      const ahead = Math.min(decodedBytes + STEP_BYTES, mostBytes)
      if (!reservation.grow(ahead) && !reservation.grow(decodedBytes)) this.#end('no memory')
    }
    const everyMs = Math.min(CHECK_EVERY_MS, minimum.graceMs)
    const timer = setInterval(() => {
      this.#elapsedMs += everyMs
      if (this.#isTooSlow()) this.#end('slow')
    }, everyMs).unref()
    const complete = () => {
      this.#stop()
      reservation.keep()
    }
    this.#stop = () => {
      clearInterval(timer)
      arriving.off('data', count)
      decoded.off('data', reserve).off('end', complete).off('close', complete)
    }
    arriving.on('data', count)
    decoded.on('data', reserve).once('end', complete).once('close', complete)
  }

  release (): void {
    this.#stop()
    this.reservation.release()
  }

  #end (why: BodyFault): void {
    this.release()
    // The rest stays in the socket, so the body is never complete.
    this.#arriving?.pause()
    this.#options.end(this.#request, why)
  }

  /**
   * Whether the average throughput after the grace period is below the minimum. The minimum grows
   * with the Content-Length, which reserves memory: otherwise a client could reserve most of the
   * memory for the duration of a request and send almost nothing.
   */
  #isTooSlow (): boolean {
    const { graceMs, bytesPerSecond, completeWithinMs } = this.#options.minimum
    const length = this.#length ?? 0
    if (Math.max(this.reservation.amount, length) <= SMALL_BODY_BYTES) return false
    const countedMs = this.#elapsedMs - graceMs
    const minBytesPerMs = Math.max(bytesPerSecond / 1_000, length / completeWithinMs)
    return countedMs > 0 && this.#arrivedBytes < minBytesPerMs * countedMs
  }
}

/** The Content-Length of a request; undefined for a chunked body. */
export function contentLength ({ headers }: FastifyRequest): number | undefined {
  const length = headers['content-length']
  return length === undefined ? undefined : Number(length)
}
