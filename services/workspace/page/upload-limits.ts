import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { isTooSlow, type MinimumThroughput } from '../../platform/minimum-throughput.ts'
import { PageError } from './page-error.ts'

/** Concurrent uploads in all. Reading a file takes several times its size in memory. */
const MAX_UPLOADS = 6
/** Concurrent uploads of one organization, so that no customer locks out the others. */
const MAX_UPLOADS_PER_ORG = 2
const CHECK_MS = 500

type Hooks = Required<Pick<RouteOptions, 'preParsing'>> & {
  readonly onRequest: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
}

/**
 * Limits concurrent uploads, and rejects others with 503 before it reads their bodies. A body below
 * the minimum throughput of `pace` loses its connection.
 */
export function createUploadLimits (pace: MinimumThroughput): Hooks {
  const active = new Map<string, number>()
  const onRequest: Hooks['onRequest'] = async ({ visitor }, reply) => {
    const subject = visitor?.session.subject
    const org = subject?.kind === 'customer' ? subject.orgId : ''
    const own = active.get(org) ?? 0
    const all = [...active.values()].reduce((sum, count) => sum + count, 0)
    if (own >= MAX_UPLOADS_PER_ORG || all >= MAX_UPLOADS) {
      throw new PageError('unavailable', 'The service is reading too many files at the moment. ' +
        'Try again in a few seconds.')
    }
    active.set(org, own + 1)
    reply.raw.once('close', () => {
      const left = (active.get(org) ?? 1) - 1
      if (left === 0) active.delete(org)
      else active.set(org, left)
    })
  }
  return {
    onRequest,
    // A synchronous hook, because the parser of the body has to be attached before the first chunk.
    preParsing: (...[request, reply, payload, done]) => {
      reply.raw.once('close', closeWhenSlow(request, pace))
      done(null, payload)
    },
  }
}

/**
 * Measures time by timer ticks, not by a clock, so that a blocked event loop does not count as a
 * slow client.
 */
function closeWhenSlow ({ raw, headers }: FastifyRequest, pace: MinimumThroughput): () => void {
  const length = headers['content-length']
  const contentLength = length === undefined ? undefined : Number(length)
  const everyMs = Math.min(CHECK_MS, pace.graceMs)
  let bytes = 0
  let elapsedMs = 0
  const count = (chunk: Buffer) => { bytes += chunk.length }
  const timer = setInterval(() => {
    elapsedMs += everyMs
    if (isTooSlow({ bytes, elapsedMs, contentLength }, pace)) raw.socket.destroy()
  }, everyMs).unref()
  const stop = () => {
    clearInterval(timer)
    raw.off('data', count)
  }
  raw.on('data', count)
  raw.once('end', stop)
  return stop
}
