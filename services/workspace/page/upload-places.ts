import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { isTooSlow, type Pace } from '../../lib/body-pace.ts'
import { PageFault } from './page-fault.ts'

/** So many files are taken at once: each takes several times its size while it is read. */
const MAX_UPLOADS = 6
/** So many of one organization, so that no customer locks out all others. */
const MAX_UPLOADS_OF_ONE = 2
const CHECK_EVERY_MS = 500

type Hooks = Required<Pick<RouteOptions, 'preParsing'>> & {
  readonly onRequest: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
}

/**
 * Lets so many uploads in at once, some of each organization, and refuses others before their
 * bodies are read. A body that comes too slowly loses its place and its connection.
 */
export function createUploadPlaces (pace: Pace): Hooks {
  const taken = new Map<string, number>()
  const onRequest: Hooks['onRequest'] = async ({ visitor }, reply) => {
    const holder = visitor?.session.holder
    const org = holder?.kind === 'customer' ? holder.orgId : ''
    const own = taken.get(org) ?? 0
    const all = [...taken.values()].reduce((sum, count) => sum + count, 0)
    if (own >= MAX_UPLOADS_OF_ONE || all >= MAX_UPLOADS) {
      throw new PageFault('unavailable', 'Many files are being read at the moment. Try again in ' +
        'a few seconds.')
    }
    taken.set(org, own + 1)
    reply.raw.once('close', () => {
      const left = (taken.get(org) ?? 1) - 1
      if (left === 0) taken.delete(org)
      else taken.set(org, left)
    })
  }
  return {
    onRequest,
    // Without a promise, so that no byte passes between here and the reader of the body.
    preParsing: (...[request, reply, payload, done]) => {
      reply.raw.once('close', endWhenSlow(request, pace))
      done(null, payload)
    },
  }
}

/** Counts time by checks, not by a clock: while this process was held up, nobody was slow. */
function endWhenSlow ({ raw, headers }: FastifyRequest, pace: Pace): () => void {
  const length = headers['content-length']
  const statedBytes = length === undefined ? undefined : Number(length)
  const everyMs = Math.min(CHECK_EVERY_MS, pace.graceMs)
  let bytes = 0
  let elapsedMs = 0
  const count = (piece: Buffer) => { bytes += piece.length }
  const timer = setInterval(() => {
    elapsedMs += everyMs
    if (isTooSlow({ bytes, elapsedMs, statedBytes }, pace)) raw.socket.destroy()
  }, everyMs).unref()
  const stop = () => {
    clearInterval(timer)
    raw.off('data', count)
  }
  raw.on('data', count)
  raw.once('end', stop)
  return stop
}
