import type { FastifyInstance, FastifyRequest } from 'fastify'
import { plainAddress } from '../platform/networks.ts'
import type { AccessLog } from './access-log.ts'
import type { AccessAction, AccessEvent } from './entry.ts'

/**
 * The action of each route, by method and path. Null for a route that changes something and needs
 * no entry, or whose handler records it. Routes that only read and are no download are not listed.
 */
export type RouteActions = Readonly<Record<string, AccessAction | null>>

/** Who sent a request. */
export type Requester = Pick<AccessEvent, 'organization' | 'actor' | 'details'>

type RequestRecording = {
  readonly log: AccessLog
  readonly actions: RouteActions
  /** Undefined for a request that is not recorded. */
  readonly requesterOf: (request: FastifyRequest) => Requester | undefined
  /** Whether the actor lacks the right to what the request asks for. */
  readonly isRefusal: (error: Error) => boolean
  /** Requests whose event is not recorded, such as later pages of a list. */
  readonly isExempt?: (request: FastifyRequest, event: AccessEvent) => boolean
}

/**
 * Records every request to the routes with an action, before their handlers run. If Redis does not
 * take the entry, the request fails and nothing is done.
 */
export function recordRequests (app: FastifyInstance, recording: RequestRecording): void {
  app.decorateRequest('accessRecorded', false)
  app.addHook('preHandler', async request => {
    await record(recording, request, 'done')
    request.accessRecorded = true
  })
  app.addHook('onError', async (request, _reply, error) => {
    if (request.accessRecorded || !recording.isRefusal(error)) return
    // The request is refused in any case.
    await record(recording, request, 'refused').catch((err: unknown) => {
      request.log.warn({ err }, 'failed to record a refused request in the access log')
    })
  })
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Its entry in the access log is stored, or it needs none. */
    accessRecorded: boolean
  }
}

async function record (
  { log, actions, requesterOf, isExempt }: RequestRecording, request: FastifyRequest,
  outcome: 'done' | 'refused'
): Promise<void> {
  const action = actions[`${request.method} ${request.routeOptions.url}`]
  if (action === undefined || action === null) return
  const requester = requesterOf(request)
  if (requester === undefined) return
  const event: AccessEvent = {
    ...requester,
    action,
    outcome,
    target: targetOf(request),
    address: plainAddress(request.ip),
  }
  if (isExempt?.(request, event) === true) return
  await log.append(event)
}

/** The most specific id in the path. */
function targetOf ({ params }: FastifyRequest): string {
  const ids = params as Readonly<Record<string, string>>
  return ids['deliveryId'] ?? ids['delivery'] ?? ids['key'] ?? ids['endpoint'] ?? ids['id'] ?? ''
}
