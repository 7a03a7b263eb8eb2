import { describe, expect, it } from 'vitest'
import {
  createCursor, type JobOutcome, type FeedJobRequest,
} from '../../../services/feed/cursor.ts'
import { eventually } from '../../support/eventually.ts'

const terms = { service: 'whatsapp', country: '', forceFresh: false } as const
const contact = (offset: number) => ({ offset, reference: `c${offset}`, input: `i${offset}` })

/** A cursor whose requests have the given outcomes, in order; waits end at once. */
function cursorWith (
  outcomes: readonly JobOutcome['kind'][], { limit = 4, storedAt = -1 } = {}
) {
  const requests: FeedJobRequest[] = []
  const passed: number[] = []
  const failedContacts: number[] = []
  const paused: unknown[] = []
  const rest = [...outcomes]
  const stopping = new AbortController()
  const cursor = createCursor({
    cursor: 'whatsapp||',
    terms,
    batchLimits: { contacts: limit, ageMs: 0 },
    position: -1,
    submit: async request => {
      requests.push(request)
      const kind = rest.shift() ?? 'taken'
      if (kind !== 'short') return { kind }
      return { kind, refusal: { code: 'concurrent_jobs_limit' } }
    },
    reread: async () => storedAt,
    passed: contacts => { passed.push(...contacts.map(({ offset }) => offset)) },
    failContact: async ({ offset }) => { failedContacts.push(offset) },
    pause: async refusal => { paused.push(refusal) },
    fail: error => { throw error },
    signal: stopping.signal,
    now: () => 0,
    sleep: async () => {},
  })
  const until = async (all: readonly number[]) => {
    await eventually(() => expect(passed).toEqual(all))
  }
  return { cursor, requests, passed, failedContacts, paused, until, stopping }
}

const ranges = (requests: readonly FeedJobRequest[]) => requests.map(({ from, to }) => [from, to])

describe('a feed cursor', () => {
  it('requests one job after another, each from the end of the previous one', async () => {
    const { cursor, requests, until } = cursorWith([], { limit: 2 })
    for (const offset of [0, 2, 3]) expect(cursor.add(contact(offset))).toBe(true)
    await until([0, 2, 3])
    expect(ranges(requests)).toEqual([[-1, 2], [2, 3]])
    expect(requests[0]).toMatchObject({
      cursor: 'whatsapp||', terms, inputs: ['i0', 'i2'], references: ['c0', 'c2'], offsets: [0, 2],
    })
    expect(cursor.add(contact(3))).toBe(false)
    expect(cursor.add(contact(4))).toBe(true)
    await until([0, 2, 3, 4])
  })

  it('continues from the stored cursor after the outcomes moved and lost', async () => {
    for (const kind of ['moved', 'lost'] as const) {
      const { cursor, requests, until } = cursorWith([kind], { storedAt: 1 })
      for (const offset of [0, 1, 2]) cursor.add(contact(offset))
      await until([0, 1, 2])
      expect(ranges(requests)).toEqual([[-1, 2], [1, 2]])
    }
  })

  it('retries the same contacts while its partner has no balance or slot', async () => {
    const { cursor, requests, paused, until } = cursorWith(['short', 'short'])
    cursor.add(contact(5))
    await until([5])
    expect(ranges(requests)).toEqual([[-1, 5], [-1, 5], [-1, 5]])
    expect(paused).toHaveLength(2)
  })

  it('isolates a contact that no job can be created for, and fails only that one', async () => {
    const failures = new Array<JobOutcome['kind']>(10).fill('failed')
    const { cursor, requests, failedContacts, until } = cursorWith(failures, { limit: 4 })
    for (const offset of [0, 1, 2, 3]) cursor.add(contact(offset))
    await until([0, 1, 2, 3])
    expect(failedContacts).toEqual([0])
    expect(requests.map(({ inputs }) => inputs.length).slice(0, 4)).toEqual([4, 2, 1, 1])
  })

  it('requests smaller jobs while the pipeline is slow, and fails no contact', async () => {
    const late = new Array<JobOutcome['kind']>(12).fill('late')
    const { cursor, requests, failedContacts, until } = cursorWith(late, { limit: 4_000 })
    const all = Array.from({ length: 4_000 }, (_, offset) => offset)
    for (const offset of all) cursor.add(contact(offset))
    await until(all)
    expect(failedContacts).toEqual([])
    const sizes = requests.map(({ inputs }) => inputs.length)
    expect(sizes.slice(0, 4)).toEqual([4_000, 2_000, 1_000, 1_000])
  })

  it('reports an error without retries, but not after the loss of its partition', async () => {
    const failuresOf = async (isLost: boolean) => {
      const failures: unknown[] = []
      const stopping = new AbortController()
      const over = Promise.withResolvers<void>()
      const cursor = createCursor({
        cursor: 'whatsapp||',
        terms,
        batchLimits: { contacts: 1, ageMs: 0 },
        position: -1,
        submit: async () => ({ kind: 'lost' }),
        reread: async () => {
          if (isLost) stopping.abort()
          over.resolve()
          throw new Error('no position')
        },
        passed: () => {},
        failContact: async () => {},
        pause: async () => {},
        fail: error => { failures.push(error) },
        signal: stopping.signal,
        now: () => 0,
      })
      cursor.add(contact(0))
      await over.promise
      await new Promise(resolve => setImmediate(resolve))
      return failures.length
    }
    expect([await failuresOf(false), await failuresOf(true)]).toEqual([1, 0])
  })

  it('requests nothing after the loss of its partition', async () => {
    const { cursor, passed, stopping, requests } = cursorWith([])
    stopping.abort()
    cursor.add(contact(0))
    await new Promise(resolve => setImmediate(resolve))
    expect([passed, requests]).toEqual([[], []])
  })
})
