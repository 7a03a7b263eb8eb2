import { describe, expect, it } from 'vitest'
import {
  Cursor, submitContacts, type CursorDeps, type FeedJobRequest, type JobOutcome,
} from '../../../services/feed/cursor.ts'
import type { Refusal } from '../../../services/jobs/job.ts'
import type { Submission, Submitted } from '../../../services/jobs/submit.ts'
import { eventually } from '../../support/eventually.ts'

const terms = { service: 'whatsapp', country: '', forceFresh: false } as const
const contact = (offset: number) => ({ offset, reference: `c${offset}`, input: `i${offset}` })
const nextTurn = () => new Promise(resolve => setImmediate(resolve))

/** A cursor whose requests have the given outcomes, in order; waits end at once. */
function createScenario (
  outcomes: readonly JobOutcome['kind'][] = [], { limit = 4, storedAt = -1 } = {},
  change: Partial<CursorDeps> = {}
) {
  const requests: FeedJobRequest[] = []
  const passed: number[] = []
  const failed: number[] = []
  const paused: unknown[] = []
  const errors: unknown[] = []
  const rest = [...outcomes]
  const stopping = new AbortController()
  const cursor = new Cursor({
    cursor: 'whatsapp||',
    terms,
    batchLimits: { contacts: limit, ageMs: 0 },
    position: -1,
    submit: async request => {
      requests.push(request)
      const kind = rest.shift() ?? 'taken'
      return kind === 'short' ? { kind, refusal: { code: 'concurrent_jobs_limit' } } : { kind }
    },
    reread: async () => storedAt,
    passed: contacts => { passed.push(...contacts.map(({ offset }) => offset)) },
    failContact: async ({ offset }) => { failed.push(offset) },
    pause: async refusal => { paused.push(refusal) },
    fail: error => { errors.push(error) },
    signal: stopping.signal,
    now: () => 0,
    sleep: async () => {},
    ...change,
  })
  const pass = async (offsets: readonly number[]) => {
    for (const offset of offsets) cursor.add(contact(offset))
    await eventually(() => expect(passed).toEqual(offsets))
    return requests.map(({ from, to }) => [from, to])
  }
  const sizes = () => requests.map(({ inputs }) => inputs.length).slice(0, 4)
  return { cursor, requests, passed, failed, paused, errors, stopping, pass, sizes }
}

describe('a feed cursor', () => {
  it('closes a batch at its maximum number or age of contacts, and on close', async () => {
    const waits: number[] = []
    let nowMs = 0
    let wake = () => {}
    const { cursor, requests } = createScenario([], {}, {
      batchLimits: { contacts: 3, ageMs: 100 },
      now: () => nowMs,
      sleep: ms => {
        waits.push(ms)
        return new Promise(resolve => { wake = resolve })
      },
    })
    const add = async (atMs: number, ...offsets: readonly number[]) => {
      nowMs = atMs
      for (const offset of offsets) cursor.add(contact(offset))
      await nextTurn()
      return [waits.splice(0), requests.splice(0).map(request => request.offsets)]
    }
    expect(await add(0, 1)).toEqual([[100], []])
    expect(await add(50, 2)).toEqual([[], []])
    cursor.close()
    expect(await add(60)).toEqual([[], [[1, 2]]])
    expect(await add(70, 5)).toEqual([[100], []])
    // What is above the maximum waits from its own arrival on.
    expect(await add(80, 6, 7, 8)).toEqual([[100], [[5, 6, 7]]])
    nowMs = 180
    wake()
    expect(await add(180)).toEqual([[], [[8]]])
  })

  it('isolates a contact that no job can be created for, and fails only that one', async () => {
    const { failed, pass, sizes } = createScenario(Array(10).fill('failed'))
    await pass([0, 1, 2, 3])
    expect([failed, sizes()]).toEqual([[0], [4, 2, 1, 1]])
  })

  it('requests smaller jobs while the pipeline is slow, and fails no contact', async () => {
    const { failed, pass, sizes } = createScenario(Array(12).fill('late'), { limit: 4_000 })
    await pass([...Array(4_000).keys()])
    expect([failed, sizes()]).toEqual([[], [4_000, 2_000, 1_000, 1_000]])
  })

  it.each([[false, 1], [true, 0]])(
    'reports an error without retries (its partition is lost: %s)', async (isLost, count) => {
      const scenario = createScenario(['lost'], {}, {
        reread: async () => {
          if (isLost) scenario.stopping.abort()
          throw new Error('no position')
        },
      })
      scenario.cursor.add(contact(0))
      await eventually(() => expect(scenario.requests).toHaveLength(1))
      await nextTurn()
      expect(scenario.errors).toHaveLength(count)
    })
})

const request: FeedJobRequest = {
  cursor: 'whatsapp|DE|',
  terms: { service: 'whatsapp', country: 'DE', forceFresh: false },
  from: 3,
  to: 9,
  inputs: ['a', 'b'],
  offsets: [5, 9],
  references: ['ra', 'rb'],
}
const partner = {
  name: 'acme', tenant: 'org_1.live', mode: 'live', pricesMicros: { whatsapp: 3_500 },
} as const

/** The outcome of the request of a partner, and what was submitted, counted and lost. */
async function requestJob (submit: () => Promise<Submitted>, change: object = {}) {
  const submissions: Submission[] = []
  const counted: unknown[] = []
  const lost: unknown[] = []
  const outcome = await submitContacts({
    submitter: {
      submit: submission => {
        submissions.push(submission)
        return submit()
      },
    },
    metrics: { count: (name, labels) => { counted.push([name, labels]) } },
    onLost: (...failure) => { lost.push(failure) },
  }, { partner: { ...partner, ...change }, partition: 2 }, request)
  expect(counted).toEqual([['feed_jobs_total', { outcome: outcome.kind }]])
  return { outcome, lost, submission: submissions[0] }
}

describe('the job of a feed', () => {
  const accept = async () => ({ kind: 'accepted', job: { id: 'job_1' } }) as Submitted
  const short = { code: 'insufficient_balance', requiredMicros: 7_000, availableMicros: 0 } as const

  it('has tenant and price of the registration, and the origin of its contacts', async () => {
    const { outcome, submission } = await requestJob(accept)
    expect(outcome).toEqual({ kind: 'taken', job: 'job_1' })
    const { cursor, from, to, inputs, offsets, references } = request
    expect(submission).toEqual({
      tenant: 'org_1.live',
      service: 'whatsapp',
      inputs,
      country: 'DE',
      forceFresh: false,
      metadata: {},
      webhookUrl: '',
      idempotencyKey: '',
      fingerprint: '',
      feed: {
        source: { partner: 'acme', partition: 2, cursor, from, to, unitPriceMicros: 3_500 },
        offsets,
      },
      references,
    })
  })

  it.each([{ pricesMicros: {} }, { mode: 'test' }])('has no own price for %j', async change => {
    const { submission } = await requestJob(accept, change)
    expect(submission?.feed?.source.unitPriceMicros).toBeNull()
  })

  it.each<[Refusal, JobOutcome]>([
    [{ code: 'cursor_moved' }, { kind: 'moved' }], [{ code: 'expired' }, { kind: 'late' }],
    [{ code: 'internal' }, { kind: 'failed' }], [{ code: 'frozen' }, { kind: 'lost' }],
    [short, { kind: 'short', refusal: short }],
  ])('that is refused with %j has the outcome %j', async (refusal, outcome) => {
    expect((await requestJob(async () => ({ kind: 'refused', refusal }))).outcome).toEqual(outcome)
  })

  it('is lost when the submitter fails', async () => {
    const error = new Error('no answer')
    const { outcome, lost } = await requestJob(async () => { throw error })
    const cursor = { partner: 'acme', partition: 2, cursor: 'whatsapp|DE|' }
    expect([outcome, lost]).toEqual([{ kind: 'lost' }, [[error, cursor]]])
  })
})
