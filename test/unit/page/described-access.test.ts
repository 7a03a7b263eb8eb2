import { afterEach, expect, it } from 'vitest'
import { pageDefinitions } from '../../../services/page/routes.ts'
import { createBrowsers } from '../../support/page/page-browser.ts'
import { jobLike, ORGANIZATION } from '../../support/page/page-doubles.ts'

const { open, closeAll } = createBrowsers()
afterEach(closeAll)

type Form = Record<string, string>
type Line = readonly [route: string, target: string, details: object, form?: Form]

/** What the log says on the result of each action: its target, and its details beside the mode. */
const LINES: readonly Line[] = [
  ['POST /sign-out', '', {}],
  ['GET /:mode/jobs/:id/results.csv', 'job_1', {}],
  ['GET /:mode/jobs/:id/valid.csv', 'job_1', {}],
  ['POST /:mode/jobs/:id/cancel', 'job_1', {}],
  ['POST /:mode/jobs/:id/erase', 'job_1', { cache: 'yes' }, { cache: 'yes' }],
  ['POST /:mode/jobs/:id/deliveries/:delivery/resend', 'evt_1', {}],
  ['GET /:mode/usage.csv', '', {}],
  ['POST /:mode/keys', 'key_9',
    { scope: 'jobs:read', networks: '192.0.2.1', days: '7' },
    { name: 'hidden', scope: 'jobs:read', networks: '192.0.2.1', days: '7' }],
  ['POST /:mode/keys/:key/roll', 'key_1', { hours: '2', newKey: 'key_2' }, { hours: '2' }],
  ['POST /:mode/keys/:key/revoke', 'key_1', {}],
  ['POST /:mode/settings/freshness', '', { days: '7' }, { days: '7' }],
  ['POST /:mode/settings/webhook-secret', '', {}],
  ['POST /:mode/webhooks', 'we_9', { event: 'job.completed' },
    { event: 'job.completed', url: 'https://hidden.example/', description: 'hidden' }],
  ['POST /:mode/webhooks/:endpoint/enabled', 'we_1', { enabled: 'false' }, { enabled: 'false' }],
  ['POST /:mode/webhooks/:endpoint/delete', 'we_1', {}],
  ['POST /:mode/webhooks/:endpoint/secret', 'we_1', {}],
  ['POST /:mode/webhooks/low-balance', '', { usd: '5' }, { usd: '5' }],
  ['POST /:mode/people', 'new', { role: 'owner' }, { email: 'hidden@new.example', role: 'owner' }],
  ['POST /:mode/people/:person/role', 'bob', { role: 'owner', previousRole: 'developer' },
    { role: 'owner' }],
  ['POST /:mode/people/:person/sign-out', 'bob', { previousRole: 'developer' }],
  ['POST /:mode/people/:person/remove', 'bob', { previousRole: 'developer' }],
  ['POST /:mode/account/sign-out-everywhere', 'ann', {}],
  ['GET /:mode/access-log.csv', '', {}],
]

const client = {
  resultsFile: async () => ['row\r\n'],
  cancel: async () => jobLike(),
  eraseJob: async () => jobLike(),
  resend: async () => ({ status: 'queued' }),
  usageFile: async () => 'day',
  createWebhookEndpoint: async () => ({ id: 'we_9', secret: 'whsec_hidden' }),
  updateWebhookEndpoint: async () => ({}),
  deleteWebhookEndpoint: async () => ({}),
  rotateWebhookEndpointSecret: async () => ({ secret: 'whsec_hidden' }),
}

const key = {
  id: 'key_1',
  mode: 'live',
  scopes: ['jobs:read'],
  name: '',
  last4: '1234',
  networks: [],
  createdAtMs: 0,
  createdBy: '',
  expiresAtMs: 0,
  revokedAtMs: 0,
  lastUsedAtMs: 0,
  lastUsedFrom: '',
  replacedBy: '',
} as const

async function openAsOwner () {
  const { deps, signIn } = open({
    apiKeys: {
      create: async () => ({ id: 'key_9', secret: 'vj_live_hidden', expiresAtMs: 0 }),
      list: async () => [key],
      revoke: async () => true,
      roll: async () =>
        ({ id: 'key_2', secret: 'vj_live_hidden', expiresAtMs: 0, oldExpiresAtMs: 0 }),
    },
  }, client)
  const add = async (email: string, role: 'owner' | 'developer') =>
    (await deps.people.add(ORGANIZATION.id, { email, role, createdBy: 'hidden' }))?.id ?? ''
  const ids = {
    ann: await add('ann@hidden.example', 'owner'),
    bob: await add('bob@hidden.example', 'developer'),
  }
  await deps.people.membershipsOf({ issuer: 'i', subject: 's', email: 'ann@hidden.example' })
  const browser = await signIn({
    kind: 'customer', orgId: ORGANIZATION.id, person: { id: ids.ann, generation: 0 },
  })
  return { deps, ids, browser }
}

const cases = LINES.map(line => ({ name: line[0], line }))

it.each(cases)('$name names its target and its details', async ({ line }) => {
  const [route, target, details, form = {}] = line
  const { deps, ids, browser } = await openAsOwner()
  const [method = '', path = ''] = route.split(' ')
  const url = path.replace(':mode', 'live').replace(':id', 'job_1').replace(':key', 'key_1')
    .replace(':endpoint', 'we_1').replace(':delivery', 'evt_1').replace(':person', ids.bob)
  const answer = method === 'GET'
    ? await browser.get(url)
    : await browser.send(url, { nonce: deps.nonces.create(), ...form })
  expect([200, 303], answer.body).toContain(answer.statusCode)
  const [attempt, end] = deps.recorded
  const { mode: _mode, ...rest } = end?.details ?? {}
  const added = (await deps.people.list(ORGANIZATION.id)).at(-1)?.id
  expect([attempt?.outcome, end?.outcome, end?.target, rest])
    .toEqual(['attempted', 'done', { ...ids, new: added }[target] ?? target, details])
  expect(end?.actor).toEqual({ kind: 'person', id: ids.ann })
  expect(JSON.stringify(deps.recorded)).not.toContain('hidden')
})

it('every action of the page is among these', () => {
  expect(LINES.map(([route]) => route).toSorted()).toEqual(
    pageDefinitions().filter(({ records }) => records).map(({ name }) => name).toSorted())
})
