import type { FastifyInstance, FastifyRequest } from 'fastify'
import { createLogThrottle } from '../../runtime/platform/log.ts'
import {
  type AccessLog, type AccessAttempt, recordAttempt, type AccessAction, type AccessDescription,
  type AccessEvent,
} from './access-log.ts'

/** Who sent a request. */
export type Requester = Pick<AccessEvent, 'organization' | 'actor' | 'details'>

type RequestRecording = {
  readonly log: AccessLog
  /** Undefined for a request that is not recorded. */
  readonly requesterOf: (request: FastifyRequest) => Requester | undefined
  /** Whether the actor lacks the right to what the request asks for. */
  readonly isRefusal: (error: Error) => boolean
  /** Requests whose event is not recorded, such as later pages of a list. */
  readonly isExempt?: (request: FastifyRequest, event: AccessEvent) => boolean
}

/**
 * Another site can make a signed-in browser send forms that are refused, and a key can ask for any
 * number of jobs that do not exist; entries are kept for ever.
 */
const REFUSALS_EVERY_MS = 60_000

/**
 * Records every request to the routes with `records`: the attempt before their handlers run, the
 * result before the response is sent. If Redis does not take the attempt, the request fails and
 * nothing is done; if it does not take the result, the attempt remains without one. Of requests
 * that are refused, by their handlers or before, the log keeps one a minute for each actor and
 * action: the attempts of others are withdrawn before they are shipped.
 */
export function recordRequests (app: FastifyInstance, recording: RequestRecording): void {
  const { log, isRefusal } = recording
  const isDue = createLogThrottle(REFUSALS_EVERY_MS)
  app.decorateRequest('accessRecorded', false)
  app.decorateRequest('accessAttempt', undefined)
  app.decorateRequest('accessDescription', undefined)
  app.addHook('preHandler', async request => {
    const event = eventOf(recording, request)
    if (event !== undefined) {
      const name = throttleName(event)
      request.accessAttempt = { ...await recordAttempt(log, event), name }
    }
    request.accessRecorded = true
  })
  app.addHook('onError', async (request, _reply, error) => {
    if (request.accessRecorded || !isRefusal(error)) return
    const event = eventOf(recording, request)
    // The request is refused in any case.
    if (event === undefined || !isDue(throttleName(event))) return
    await stored(request, log.append({ ...event, outcome: 'refused' }))
  })
  app.addHook('onSend', async (request, { statusCode }) => {
    const { accessAttempt: attempt, accessDescription } = request
    // The hook runs again if sending fails.
    request.accessAttempt = undefined
    if (attempt === undefined) return
    const result = statusCode < 400 ? 'done' : statusCode < 500 ? 'refused' : 'failed'
    const record = async () => {
      const isRepeated = result === 'refused' && !isDue(attempt.name)
      if (isRepeated && await attempt.withdraw()) return
      await attempt.record(result, accessDescription)
    }
    await stored(request, record())
  })
}

const throttleName = ({ actor, action }: AccessEvent) => `${actor.id} ${action}`

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * What the access log calls a request to the route. Null for one that changes something and
     * needs no entry, or whose handler records it; only routes that just read, and are no download,
     * go without.
     */
    readonly records?: AccessAction | null
  }
  interface FastifyRequest {
    /** Its attempt is in the access log, or it needs no entry. */
    accessRecorded: boolean
    /** Its entry, and the name by which refusals are throttled. */
    accessAttempt: AccessAttempt & { readonly name: string } | undefined
    accessDescription: AccessDescription | undefined
  }
}

/** Adds to the result of a request in the access log what its handler knows about it. */
export function describeAccess (request: FastifyRequest, about: AccessDescription): void {
  request.accessDescription = about
}

/** Waits for an entry whose request goes on in any case. */
async function stored ({ log }: FastifyRequest, entry: Promise<unknown>): Promise<void> {
  await entry.catch((err: unknown) => {
    log.warn({ err }, 'failed to record the result of a request in the access log')
  })
}

/** The event of a request; undefined if it is not recorded. */
function eventOf (
  { requesterOf, isExempt }: RequestRecording, request: FastifyRequest
): AccessEvent | undefined {
  // A request for the headers downloads nothing.
  const action = request.method === 'HEAD' ? undefined : request.routeOptions.config?.records
  if (action === undefined || action === null) return undefined
  const requester = requesterOf(request)
  if (requester === undefined) return undefined
  const ids = request.params as Readonly<Record<string, string>>
  const target = TARGETS.map(name => ids[name]).find(id => id !== undefined) ?? ''
  const event: AccessEvent = { ...requester, action, target, address: request.clientAddress }
  return isExempt?.(request, event) === true ? undefined : event
}

/** Ids in paths, the most specific first. */
const TARGETS = ['deliveryId', 'delivery', 'key', 'endpoint', 'person', 'id']
