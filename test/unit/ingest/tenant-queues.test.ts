import { describe, expect, it, vi } from 'vitest'
import { createTenantGate } from '../../../services/ingest/limits/limiter.ts'
import { queuePreflights } from '../../../services/ingest/limits/preflights.ts'
import type { Submission, SubmitOutcome } from '../../../services/jobs/submit.ts'
import { jobOf } from './doubles.ts'

const accepted: SubmitOutcome = { kind: 'accepted', job: jobOf(), replayed: false }

/** A queue of two slots, the submissions that have started, and what ends each. */
function setUp ({ waitMs = 60_000 } = {}) {
  const started: string[] = []
  const ends: PromiseWithResolvers<SubmitOutcome>[] = []
  const refunds: unknown[] = []
  const work = (submission: Submission) => {
    started.push(submission.idempotencyKey)
    const end = Promise.withResolvers<SubmitOutcome>()
    ends.push(end)
    return end.promise
  }
  const submit = queuePreflights(work, {
    maxPreflights: 2,
    maxRows: 100_000,
    waitMs,
    limiter: { refund: async request => { refunds.push(request) } },
  })
  const send = (idempotencyKey: string, rows = 1, tenant = 'org_1.live') =>
    submit({ tenant, idempotencyKey, inputs: new Array<string>(rows) } as unknown as Submission)
  const hasStarted = (...keys: readonly string[]) => vi.waitFor(() => expect(started).toEqual(keys))
  return { hasStarted, ends, refunds, send }
}

describe('the preflights of a tenant', () => {
  it('run two at a time in order, independent of other tenants', async () => {
    const { hasStarted, ends, send } = setUp()
    const sent = [send('a'), send('b'), send('c'), send('d')]
    await hasStarted('a', 'b')
    sent.push(send('e', 1, 'org_2.live'))
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
    const sent = [send('a', 60_000), send('b', 50_000), send('c', 2_000), send('d')]
    await hasStarted('a', 'd')
    ends[0]!.resolve(accepted)
    await hasStarted('a', 'd', 'b', 'c')
    const largest = send('e', 100_001)
    ends[2]!.resolve(accepted)
    ends[3]!.resolve(accepted)
    await hasStarted('a', 'd', 'b', 'c', 'e')
    for (const end of ends) end.resolve(accepted)
    expect(await Promise.all([...sent, largest])).toEqual(Array(5).fill(accepted))
  })

  it('of a sample refund nothing, as its quote counts', async () => {
    const { hasStarted, ends, refunds, send } = setUp({ waitMs: 20 })
    const sent = [send('a', 1, 'org_1-sample.live'), send('b', 1, 'org_1-sample.live')]
    await hasStarted('a', 'b')
    await expect(send('c', 1, 'org_1-sample.live'))
      .rejects.toMatchObject({ fault: { code: 'too_many_preflights' } })
    expect(refunds).toEqual([])
    for (const end of ends) end.resolve(accepted)
    await Promise.all(sent)
  })

  it('that wait too long are rejected, and refund the rate limits', async () => {
    const { hasStarted, ends, refunds, send } = setUp({ waitMs: 20 })
    const sent = [send('a'), send('b')]
    await hasStarted('a', 'b')
    const late = await Promise.allSettled([send('c'), send('d')])
    const fault = { code: 'too_many_preflights', retryAfterSeconds: 5 }
    expect(late).toMatchObject(Array(2).fill({ reason: { fault } }))
    expect(refunds).toEqual(Array(2).fill({ org: 'org_1', kind: 'post' }))
    for (const end of ends) end.resolve(accepted)
    await Promise.all(sent)
    // The slots of those that left stayed free.
    const next = [send('e'), send('f')]
    await hasStarted('a', 'b', 'e', 'f')
    for (const end of ends) end.resolve(accepted)
    await Promise.all(next)
  })
})

it('the expensive reads of a tenant ' +
  'run one at a time in order, and too many are refused', async () => {
  const enter = createTenantGate()
  const started: string[] = []
  const first = Promise.withResolvers<void>()
  const read = (tenant: string, name: string) => enter(tenant, async () => {
    started.push(name)
    if (name === 'a0') await first.promise
    return name
  })
  const reads = Array.from({ length: 11 }, (_, at) => read('a', `a${at}`))
  await expect(read('a', 'a11')).rejects.toMatchObject({ fault: { code: 'rate_limited' } })
  expect(await read('b', 'b0')).toBe('b0')
  expect(started).toEqual(['a0', 'b0'])
  first.resolve()
  expect(await Promise.all(reads)).toHaveLength(11)
  expect(started.slice(2)).toEqual(Array.from({ length: 10 }, (_, at) => `a${at + 1}`))
  const failed = enter('a', async () => { throw new Error('down') })
  const next = enter('a', async () => 'done')
  await expect(failed).rejects.toThrow('down')
  expect(await next).toBe('done')
})
