import { expect, it } from 'vitest'
import { routesOf } from '../../../services/ingest/routes.ts'
import { eventIdOf } from '../../../services/jobs/events.ts'
import { closedJob, doubles, JOB_ID, MANIFEST, settings, createTestApp } from './doubles.ts'

const EVENT = eventIdOf(JOB_ID, 'job.completed')

type Line = readonly [route: string, target: string, details: object, body?: object]

/** What the log says on the result of each action: its target, and its details beside the mode. */
const LINES: readonly Line[] = [
  ['POST /api/v1/jobs/:id/cancel', JOB_ID, {}],
  ['DELETE /api/v1/jobs/:id', JOB_ID, {}],
  ['GET /api/v1/jobs/:id/results', JOB_ID, {}],
  ['POST /api/v1/jobs/:id/deliveries/:deliveryId/resend', EVENT, {}],
  ['POST /api/v1/webhook-endpoints', 'new', { events: 'job.completed,job.failed' }, {
    url: 'https://hidden.example/', events: ['job.completed', 'job.failed'], description: 'hidden',
  }],
  ['PATCH /api/v1/webhook-endpoints/:id', 'first', { enabled: 'false' },
    { enabled: false, url: 'https://hidden.example/' }],
  ['DELETE /api/v1/webhook-endpoints/:id', 'first', {}],
  ['POST /api/v1/webhook-endpoints/:id/rotate-secret', 'first', {}],
]

const cases = LINES.map(line => ({ name: line[0], line }))

it.each(cases)('$name names its target and its details', async ({ line }) => {
  const [route, target, details, body] = line
  const deps = doubles({
    readJob: async () => closedJob(),
    cancel: async () => ({ kind: 'cancelling', job: closedJob() }) as never,
    findArchived: async () => ({ job: closedJob(), manifest: MANIFEST }),
    openHeader: async () => ({ metadata: {}, webhookUrl: 'https://hidden.example/' }),
    listAttempts: async () => [{ event: EVENT, attempt: 1 }] as never,
  })
  const first = await deps.endpoints.create('org_01.live', {
    url: 'https://first.example/', events: ['*'], description: '', enabled: true,
  }, 9)
  const app = createTestApp({ deps, settings })
  const [method = '', path = ''] = route.split(' ')
  const id = path.includes('/jobs/') ? JOB_ID : first?.id ?? ''
  const answer = await app.inject({
    method: method as 'GET',
    url: path.replace(':id', id).replace(':deliveryId', EVENT),
    headers: { authorization: 'Bearer live' },
    ...body && { payload: body },
  })
  expect(answer.statusCode, answer.body).toBeLessThan(300)
  const { recorded } = deps.calls
  const [attempt, end] = recorded
  const { mode, ...rest } = end?.details ?? {}
  const made = String(answer.headers.location).split('/').at(-1)
  expect([attempt?.outcome, end?.outcome, end?.target, mode, rest]).toEqual([
    'attempted', 'done', { new: made, first: first?.id }[target] ?? target, 'live', details,
  ])
  expect(JSON.stringify(recorded)).not.toContain('hidden')
})

it('every action of the interface is among these', () => {
  const lines = new Set(LINES.map(([route]) => route))
  const recorded = routesOf(doubles(), settings).filter(({ config }) => config?.records)
  expect(recorded.map(({ method, url }) => `${String(method)} ${url}`)
    .filter(route => !lines.has(route))).toEqual([])
})
