import { describe, expect, it, vi } from 'vitest'
import type { Decision, Emission } from '../../../services/runtime/engine/stage.ts'
import type { Checker, CheckResult } from '../../../services/verify/checker.ts'
import type { ServiceSlug } from '../../../services/topology.ts'
import type { VerifyDeps } from '../../../services/verify/stage.ts'
import { cellsIn } from '../../support/clickhouse/results.ts'
import { decideAll } from '../../support/decide-all.ts'
import { upTo } from '../../support/jobs.ts'
import {
  bitmapOf, cachedRecord, checkerBy, DEAD, delivered, downFor, emitted, rowsOf, tokenFor,
} from '../../support/stage-messages.ts'
import { startVerify } from './start-verify.ts'

const { redis, cache, store, acceptJob } = await startVerify()

const signal = new AbortController().signal
const phone = (last: number) => `+1212736${5_000 + last}`
const verdict = { status: 'valid', reason: 'assigned_range', confidence: 90, fields: {} } as const
const MINUTE_MS = 60_000

/** Round trips to Redis in a check: batches that may run beside it are there before its end. */
const CHECK_TRIPS = 10

async function setUp (
  { before = {}, ...change }: Partial<VerifyDeps> & {
    readonly before?: Readonly<Record<string, () => Promise<void>>>
  } = {}
) {
  const state = { isDown: false, running: 0, most: 0 }
  const check: Checker['check'] = async (rows, { service }): Promise<CheckResult> => {
    await before[service]?.()
    state.most = Math.max(state.most, ++state.running)
    for (let trip = 0; trip < CHECK_TRIPS; trip++) await redis.ping()
    state.running--
    if (state.isDown) return downFor(rows)
    return { verdicts: new Map(rows.map(({ row }) => [row, verdict])), open: new Map() }
  }
  const job = await acceptJob()
  return { state, ...job, stage: job.start({ checker: checkerBy(check), ...change }) }
}

const reasonsIn = ({ rows }: Emission<'rows.completed'>) => cellsIn(rows, 'reason')

describe('verify', () => {
  it('finishes the rows of a batch in one block', async () => {
    const { stage, batch } = await setUp()
    const message = batch(
      [phone(0), phone(1)], { batch: 3, chunk: 1, chunks: 2, duplicates: [0, 2] })
    const decisions = await stage.decide([message], signal)
    expect(decisions).toMatchObject([{ completes: [message] }])
    const [block] = emitted(decisions, 'rows.completed')
    expect(block).toMatchObject({
      lane: 'small',
      value: { chunk: 1, batch: 3, inputs: false, duplicates: [{ row: 1, count: 2 }] },
    })
    expect([block!.value.finished, block!.value.live].map(rowsOf)).toEqual([[0, 1], [0, 1]])
  })

  it('processes the batches of tenants in turn', async () => {
    const { stage, batch } = await setUp()
    const other = await acceptJob()
    const flood = Array.from({ length: 30 }, () => batch([phone(0)]))
    const messages = [...flood, other.batch([phone(0)])]
    const sent: string[] = []
    const topic = 'rows.to-verify.bulk.phone-validation'
    await decideAll(stage, { topic, messages }, ({ tenant }) => sent.push(tenant))
    expect(sent).toHaveLength(31)
    expect(sent.indexOf(other.tenant)).toBeLessThan(8)
  })

  it('emits nothing for a job that has ended or was never accepted', async () => {
    const { stage, batch, end } = await setUp()
    await end('live')
    const never = batch([phone(0)], { job: 'job_never' })
    expect(await stage.decide([batch([phone(0)]), never], signal))
      .toMatchObject([{ emits: [] }, { completes: [never], emits: [] }])
  })

  it('ends the rows of a cancelled job unchecked and free of charge', async () => {
    const { stage, batch, cancel, state } = await setUp()
    await cancel()
    const [block] = emitted(await stage.decide([batch([phone(0)])], signal), 'rows.completed')
    expect(state.most).toBe(0)
    expect(reasonsIn(block!)).toEqual(['cancelled'])
    const { cancelled, live } = block!.value
    expect([cancelled, live].map(rowsOf)).toEqual([[0], []])
  })

  it('does not delay a service by the batches of another', async () => {
    const slow = Promise.withResolvers<void>()
    const { stage, batch } = await setUp({ before: { whatsapp: () => slow.promise } })
    const batchesFor = (service: ServiceSlug) =>
      [0, 1, 2].map(row => batch([phone(row)], { service, batch: row }))
    const slowly = stage.decide(batchesFor('whatsapp'), signal)
    expect(await stage.decide(batchesFor('telegram'), signal)).toHaveLength(3)
    slow.resolve()
    expect(await slowly).toHaveLength(3)
  })

  it('limits the concurrent batches of a service', async () => {
    const { stage, batch, state } = await setUp()
    const messages = upTo(5).map(row => batch([phone(row)], { batch: row }))
    expect(await stage.decide(messages, signal)).toHaveLength(5)
    expect(state.most).toBe(2)
  })

  it('checks the batch of another tenant before those that wait for a slot', async () => {
    const turn = Promise.withResolvers<void>()
    const begun: (string | undefined)[] = []
    const { stage, batch, tenant } = await setUp({
      checker: checkerBy(async (rows, request) => {
        begun.push(request.tenant)
        await turn.promise
        return { verdicts: new Map(rows.map(({ row }) => [row, verdict])), open: new Map() }
      }),
    })
    const other = await acceptJob()
    const large = stage.decide(upTo(6).map(row => batch([phone(row)], { batch: row })), signal)
    await vi.waitUntil(() => begun.length === 2)
    const small = stage.decide([other.batch([phone(0)])], signal)
    for (let trip = 0; trip < CHECK_TRIPS; trip++) await redis.ping()
    turn.resolve()
    await Promise.all([large, small])
    expect(begun.indexOf(other.tenant)).toBeLessThan(4)
    expect(begun.filter(it => it === tenant)).toHaveLength(6)
  })

  it('waits for all batches before it rejects', async () => {
    const batchAction = vi.fn(store.batchAction).mockRejectedValueOnce(new Error('no'))
    const { stage, batch, state } = await setUp({ store: { ...store, batchAction } })
    await expect(stage.decide([batch([phone(0)]), batch([phone(1)])], signal))
      .rejects.toThrow('no')
    expect([state.most, state.running]).toEqual([1, 0])
  })

  it('emits nothing after the loss of its partition', async () => {
    const { stage, batch } = await setUp()
    await expect(stage.decide([batch([phone(0)])], AbortSignal.abort(new Error('lost'))))
      .rejects.toThrow('lost')
  })

  it('ends the rows of an unreadable batch if its job runs', async () => {
    const { stage, tenant, job, end, close } = await setUp()
    const headers = {
      tenant,
      job,
      service: 'phone-validation',
      lane: 'bulk',
      chunk: '0',
      chunks: '1',
      firstRow: '0',
      chunkRows: '9',
      totalRows: '9',
      rows: bitmapOf(9, [2, 8]).toString('base64'),
    }
    const [block] = emitted([{ emits: await stage.resolveDead(headers, DEAD) }], 'rows.completed')
    expect(rowsOf(block!.value.finished)).toEqual([2, 8])
    expect(reasonsIn(block!)).toEqual(['internal', 'internal'])
    expect(block).toMatchObject({ lane: 'bulk', value: { inputs: false } })
    await end('live')
    await close()
    expect(await stage.resolveDead(headers, DEAD)).toEqual([])
    expect(await stage.resolveDead({ tenant }, DEAD)).toEqual([])
  })
})

describe('a verification batch with unavailable providers', () => {
  it('is retried with its open rows, and the other rows are finished', async () => {
    const { stage, batch, tenant, state, clock, counted } = await setUp()
    state.isDown = true
    const scope = { tenant, service: 'phone-validation', version: '1' } as const
    await cache.store(scope, tokenFor(phone(1)), [cachedRecord()])
    const message = batch([phone(0), phone(1), phone(2)], { duplicates: [0, 0, 4] })
    const decisions = await stage.decide([message], signal)
    const [block] = emitted(decisions, 'rows.completed')
    const [retry] = emitted(decisions, 'rows.retry')
    expect(rowsOf(block!.value.finished)).toEqual([1])
    expect(retry).toMatchObject({ lane: 'small', service: 'phone-validation' })
    expect(retry?.value).toMatchObject({
      attempt: 1,
      notBefore: clock.now() + MINUTE_MS,
      retryDeadline: clock.now() + 15 * MINUTE_MS,
      batch: 0,
    })
    expect(retry?.rows).toEqual({
      rows: [0, 2],
      duplicates: [0, 4],
      rotatedTokens: null,
      waits: null,
      canonicals: [phone(0), phone(2)],
      tokens: Buffer.concat([tokenFor(phone(0)), tokenFor(phone(2))]),
    })
    expect(counted).toEqual(['verification_batches_retried_total'])
  })

  it('blocks its partition until it is due', async () => {
    const { stage, batch, state, clock, acceptedAtMs } = await setUp()
    state.isDown = true
    const [retry] = emitted(await stage.decide([batch([phone(0)])], signal), 'rows.retry')
    const message = delivered(retry!)
    const due = batch([phone(1)])
    const [decision, postponement, ...rest] =
      await stage.decide([due, message, batch([phone(2)])], signal)
    expect(decision).toMatchObject({ completes: [due] })
    // Until then the status of its job is polled every second.
    expect(postponement).toEqual({ postpone: message, untilMs: acceptedAtMs + 1_000 })
    expect(rest).toEqual([])
    clock.advance(MINUTE_MS - 500)
    expect(await stage.decide([message], signal))
      .toEqual([{ postpone: message, untilMs: acceptedAtMs + MINUTE_MS }])
    clock.advance(500)
    state.isDown = false
    const [block] = emitted(await stage.decide([message], signal), 'rows.completed')
    expect(block?.value.batch).toBe(2_000)
    expect(rowsOf(block!.value.live)).toEqual([0])
  })

  /** A waiting batch of one job, and behind it one of a job that is cancelled. */
  async function cancelledBehindWaiting () {
    const { stage, batch, state, clock, cancel, end } = await setUp()
    const other = await acceptJob()
    state.isDown = true
    const parts = [other.batch([phone(0)]), batch([phone(1)])]
    const [waiting, cancelled] = emitted(await stage.decide(parts, signal), 'rows.retry')
      .map((retry, offset) => delivered(retry, offset))
    await cancel()
    const postponed = { postpone: waiting, untilMs: clock.now() + 1_000 }
    const decide = () => stage.decide([waiting!, cancelled!], signal)
    return { stage, end, clock, waiting, cancelled: cancelled!, postponed, decide }
  }

  it('ends at once when its job is cancelled, even behind a waiting batch', async () => {
    const { stage, end, cancelled, postponed, decide } = await cancelledBehindWaiting()
    const decisions = await decide()
    expect(decisions).toMatchObject([{ completes: [cancelled] }, postponed])
    expect(reasonsIn(emitted(decisions.slice(0, 1), 'rows.completed')[0]!)).toEqual(['cancelled'])
    // Redelivered together with the waiting batch, it needs no more checks.
    await end('cancelled')
    expect(await decide()).toMatchObject([{ completes: [cancelled], emits: [] }, postponed])
    expect(await stage.decide([cancelled], signal)).toEqual([{ completes: [cancelled], emits: [] }])
  })

  it('ends only once when its job is cancelled behind a waiting batch', async () => {
    const { stage, clock, waiting, cancelled, postponed, decide } = await cancelledBehindWaiting()
    const [decision] = await decide() as Decision<'verify'>[]
    // It is decided again until its block is acknowledged.
    expect(await decide()).toHaveLength(2)
    await decision?.afterProduced?.()
    expect(await decide()).toEqual([postponed])
    // Nothing waits before it any more, so its offset can be committed.
    clock.advance(MINUTE_MS)
    expect(await decide())
      .toMatchObject([{ completes: [waiting] }, { completes: [cancelled], emits: [] }])
    stage.forget()
    expect(emitted(await stage.decide([cancelled], signal), 'rows.completed')).toHaveLength(1)
  })

  it('ends without a verdict, free, 15 minutes after its first attempt', async () => {
    const { stage, batch, state, clock, acceptedAtMs } = await setUp()
    state.isDown = true
    let decisions = await stage.decide([batch([phone(0)])], signal)
    const attempts: number[] = []
    for (let [retry] = emitted(decisions, 'rows.retry'); retry !== undefined;
      [retry] = emitted(decisions, 'rows.retry')) {
      attempts.push(retry.value.attempt)
      clock.advance(retry.value.notBefore - clock.now())
      decisions = await stage.decide([delivered(retry)], signal)
    }
    expect(attempts).toHaveLength(15)
    expect(clock.now() - acceptedAtMs).toBe(15 * MINUTE_MS)
    const [block] = emitted(decisions, 'rows.completed')
    expect(reasonsIn(block!)).toEqual(['unavailable'])
    expect(block?.value.batch).toBe(30_000)
    const { unknown, live } = block!.value
    expect([unknown, live].map(rowsOf)).toEqual([[0], []])
  })
})
