import { describe, expect, it, vi } from 'vitest'
import { ApiException } from '../../../services/ingest/errors.ts'
import { queuePreflights } from '../../../services/ingest/preflight-queue.ts'
import type { Submitted } from '../../../services/jobs/submit.ts'
import type { Submission } from '../../../services/jobs/send.ts'
import { jobOf } from './doubles.ts'

const accepted: Submitted = { kind: 'accepted', job: jobOf(), replayed: false }

/** A queue of two slots, the submissions that have started, and what ends each. */
function setUp ({ waitMs = 60_000 } = {}) {
  const started: string[] = []
  const ends: PromiseWithResolvers<Submitted>[] = []
  const givenBack: unknown[] = []
  const work = (submission: Submission) => {
    started.push(submission.idempotencyKey)
    const end = Promise.withResolvers<Submitted>()
    ends.push(end)
    return end.promise
  }
  const { submit } = queuePreflights({ submit: work, quote: () => Promise.reject(new Error()) }, {
    maxPreflights: 2,
    maxRows: 100_000,
    waitMs,
    limiter: {
      refund: async request => { givenBack.push(request) },
    },
  })
  const send = (idempotencyKey: string, tenant = 'org_1.live', rows = 1) =>
    submit({ tenant, idempotencyKey, inputs: new Array<string>(rows) } as unknown as Submission)
  const hasStarted = (...keys: readonly string[]) => vi.waitFor(() => expect(started).toEqual(keys))
  return { hasStarted, ends, givenBack, send }
}

describe('the preflights of a tenant', () => {
  it('run two at a time in order, independent of other tenants', async () => {
    const { hasStarted, ends, send } = setUp()
    const sent = [send('a'), send('b'), send('c'), send('d'), send('e', 'org_2.live')]
    await hasStarted('a', 'b', 'e')
    ends[1]!.resolve(accepted)
    await hasStarted('a', 'b', 'e', 'c')
    ends[0]!.reject(new Error('the broker is away'))
    await expect(sent[0]).rejects.toThrow('the broker is away')
    await hasStarted('a', 'b', 'e', 'c', 'd')
    for (const end of ends) end.resolve(accepted)
    expect(await Promise.all(sent.slice(1))).toEqual(Array(4).fill(accepted))
  })

  it('have a maximum of rows, and small ones do not wait for a large one', async () => {
    const { hasStarted, ends, send } = setUp()
    const big = (key: string, rows: number) => send(key, 'org_1.live', rows)
    const sent = [big('a', 60_000), big('b', 50_000), big('c', 2_000), send('d')]
    await hasStarted('a', 'd')
    ends[0]!.resolve(accepted)
    await hasStarted('a', 'd', 'b', 'c')
    const largest = big('e', 100_001)
    ends[2]!.resolve(accepted)
    ends[3]!.resolve(accepted)
    await hasStarted('a', 'd', 'b', 'c', 'e')
    for (const end of ends) end.resolve(accepted)
    expect(await Promise.all([...sent, largest])).toEqual(Array(5).fill(accepted))
  })

  it('that wait too long are rejected, and refund the rate limits', async () => {
    const { hasStarted, ends, givenBack, send } = setUp({ waitMs: 1 })
    const sent = [send('a'), send('b')]
    const error = await send('c').catch((error: unknown) => error)
    expect(error).toBeInstanceOf(ApiException)
    expect((error as ApiException).fault).toMatchObject({
      code: 'too_many_preflights', retryAfterSeconds: 5,
    })
    expect(givenBack).toEqual([{ org: 'org_1', kind: 'post' }])
    for (const end of ends) end.resolve(accepted)
    await Promise.all(sent)
    // The slot of the one that left stayed free.
    const next = send('d')
    await hasStarted('a', 'b', 'd')
    ends.at(-1)!.resolve(accepted)
    await next
  })
})
