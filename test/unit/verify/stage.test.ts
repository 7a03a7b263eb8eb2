import { describe, expect, it } from 'vitest'
import type { Decision, Emission } from '../../../services/lib/stage.ts'
import type { Checked } from '../../../services/verify/providers.ts'
import { createVerifyStage, type VerifyParts } from '../../../services/verify/stage.ts'
import { cellsIn } from '../../support/cells.ts'
import { createCacheDouble } from '../../support/cache-double.ts'
import { decideAll } from '../../support/decide-all.ts'
import {
  acceptedJob, bitmapOf, cachedRecord, createManualClock, createStoreDouble, delivered, emitted,
  JOB, partOf, QUOTED_AT_MS, rowsOf, TENANT, tokenFor,
} from '../../support/stage-doubles.ts'

const signal = new AbortController().signal
const phone = (last: number) => `+1212736${5_000 + last}`
const verdict = { status: 'valid', reason: 'assigned_range', confidence: 90, fields: {} } as const
const MINUTE_MS = 60_000

function setUp (before: Readonly<Record<string, () => Promise<void>>> = {}) {
  const clock = createManualClock()
  const store = createStoreDouble({ clock })
  const cache = createCacheDouble()
  store.jobs.set(JOB, acceptedJob())
  const state = { isDown: false, running: 0, most: 0 }
  const check: VerifyParts['check'] = async (rows, { service }): Promise<Checked> => {
    await before[service]?.()
    state.most = Math.max(state.most, ++state.running)
    await new Promise(setImmediate)
    state.running--
    if (state.isDown) return { kind: 'down' }
    return { kind: 'answered', verdicts: new Map(rows.map(({ row }) => [row, verdict])) }
  }
  const putOff: string[] = []
  const stage = createVerifyStage({
    store,
    cache,
    check,
    clock,
    sleep: clock.sleep,
    leaseMs: 30_000,
    leasePollMs: 250,
    concurrencyOf: () => 2,
    batch: 8,
    laterAfterMs: MINUTE_MS,
    giveUpAfterMs: 15 * MINUTE_MS,
    metrics: { count: (name) => putOff.push(name) },
  })
  return { clock, store, cache, state, stage, putOff }
}

const reasonsIn = ({ rows }: Emission<'rows.finished'>) =>
  cellsIn(rows, 'reason')

describe('verify', () => {
  it('finishes the rows of a part in one block that answers it', async () => {
    const { stage } = setUp()
    const message = partOf([phone(0), phone(1)], { part: 3, chunk: 1, chunks: 2, copies: [0, 2] })
    const decisions = await stage.decide([message], signal)
    expect(decisions).toMatchObject([{ finishes: [message] }])
    const [block] = emitted(decisions, 'rows.finished')
    expect(block).toMatchObject({
      lane: 'small', value: { chunk: 1, part: 3, inputs: false, copies: [{ row: 1, copies: 2 }] },
    })
    expect(rowsOf(block!.value.finished)).toEqual([0, 1])
    expect(rowsOf(block!.value.billable)).toEqual([0, 1])
    expect(rowsOf(block!.value.live)).toEqual([0, 1])
  })

  it('takes the parts of each tenant in turn', async () => {
    const { stage } = setUp()
    const flood = Array.from({ length: 30 }, () => 'org_flood.live')
    const messages = [...flood, TENANT].map(tenant => partOf([phone(0)], { tenant }))
    const sent: string[] = []
    const topic = 'rows.missed.bulk.phone-validation'
    await decideAll(stage, { topic, messages }, ({ tenant }) => sent.push(tenant))
    expect(sent).toHaveLength(31)
    expect(sent.indexOf(TENANT)).toBeLessThan(8)
  })

  it('emits nothing for a job that has ended or was never accepted', async () => {
    const { stage, store } = setUp()
    store.change(JOB, { ended: true })
    const never = partOf([phone(0)], { job: 'job_never' })
    expect(await stage.decide([partOf([phone(0)]), never], signal))
      .toMatchObject([{ emits: [] }, { finishes: [never], emits: [] }])
  })

  it('ends the rows of a cancelled job unchecked and free', async () => {
    const { stage, store, state } = setUp()
    store.change(JOB, { status: 'cancelling' })
    const [block] = emitted(await stage.decide([partOf([phone(0)])], signal), 'rows.finished')
    expect(state.most).toBe(0)
    expect(reasonsIn(block!)).toEqual(['cancelled'])
    expect([rowsOf(block!.value.failed), rowsOf(block!.value.billable)]).toEqual([[0], []])
  })

  it('lets no service wait for the parts of another', async () => {
    const slow = Promise.withResolvers<void>()
    const { stage } = setUp({ whatsapp: () => slow.promise })
    const partsFor = (service: string) =>
      [0, 1, 2].map(part => partOf([phone(part)], { service, part }))
    const slowly = stage.decide(partsFor('whatsapp'), signal)
    expect(await stage.decide(partsFor('telegram'), signal)).toHaveLength(3)
    slow.resolve()
    expect(await slowly).toHaveLength(3)
  })

  it('checks only so many parts at a time', async () => {
    const { stage, state } = setUp()
    const messages = Array.from({ length: 5 }, (_, part) => partOf([phone(part)], { part }))
    expect(await stage.decide(messages, signal)).toHaveLength(5)
    expect(state.most).toBe(2)
  })

  it('waits for all parts before it fails with one', async () => {
    const { stage, store, state } = setUp()
    store.failNext(new Error('no'))
    await expect(stage.decide([partOf([phone(0)]), partOf([phone(1)])], signal))
      .rejects.toThrow('no')
    expect([state.most, state.running]).toEqual([1, 0])
  })

  it('emits nothing once its partition is lost', async () => {
    const { stage } = setUp()
    await expect(stage.decide([partOf([phone(0)])], AbortSignal.abort(new Error('lost'))))
      .rejects.toThrow('lost')
  })

  it('ends the rows of a part that nobody can read, if its job runs', async () => {
    const { stage, store } = setUp()
    const headers = {
      tenant: TENANT,
      job: JOB,
      service: 'phone-validation',
      lane: 'bulk',
      chunk: '0',
      chunks: '1',
      firstRow: '0',
      chunkRows: '9',
      totalRows: '9',
      rows: bitmapOf(9, [2, 8]).toString('base64'),
    }
    const [block] = emitted([{ emits: await stage.whenDead(headers, '') }], 'rows.finished')
    expect(rowsOf(block!.value.finished)).toEqual([2, 8])
    expect(reasonsIn(block!)).toEqual(['internal', 'internal'])
    expect(block).toMatchObject({ lane: 'bulk', value: { inputs: false } })
    store.change(JOB, { closed: true })
    expect(await stage.whenDead(headers, '')).toEqual([])
    expect(await stage.whenDead({ tenant: TENANT }, '')).toEqual([])
  })
})

describe('a part whose providers are down', () => {
  it('comes back later with its open rows, the others are finished', async () => {
    const { stage, state, cache, putOff } = setUp()
    state.isDown = true
    cache.entries.set(tokenFor(phone(1)).toString('hex'), cachedRecord())
    const message = partOf([phone(0), phone(1), phone(2)], { copies: [0, 0, 4] })
    const decisions = await stage.decide([message], signal)
    const [block] = emitted(decisions, 'rows.finished')
    const [later] = emitted(decisions, 'rows.later')
    expect(rowsOf(block!.value.finished)).toEqual([1])
    expect(later).toMatchObject({ lane: 'small', service: 'phone-validation' })
    expect(later?.value).toMatchObject({
      attempt: 1,
      notBefore: QUOTED_AT_MS + MINUTE_MS,
      giveUpAt: QUOTED_AT_MS + 15 * MINUTE_MS,
      part: 0,
    })
    expect(later?.rows).toEqual({
      rows: [0, 2],
      copies: [0, 4],
      otherTokens: null,
      canonicals: [phone(0), phone(2)],
      tokens: Buffer.concat([tokenFor(phone(0)), tokenFor(phone(2))]),
    })
    expect(putOff).toEqual(['parts_put_off_total'])
  })

  it('waits in its topic until it is due, with all behind it', async () => {
    const { stage, state, clock } = setUp()
    state.isDown = true
    const [later] = emitted(await stage.decide([partOf([phone(0)])], signal), 'rows.later')
    const message = delivered(later!)
    const due = partOf([phone(1)])
    const [decision, postponement, ...rest] =
      await stage.decide([due, message, partOf([phone(2)])], signal)
    expect(decision).toMatchObject({ finishes: [due] })
    // Until then it is looked up every second whether its job still needs it.
    expect(postponement).toEqual({ postpone: message, untilMs: QUOTED_AT_MS + 1_000 })
    expect(rest).toEqual([])
    clock.advance(MINUTE_MS - 500)
    expect(await stage.decide([message], signal))
      .toEqual([{ postpone: message, untilMs: QUOTED_AT_MS + MINUTE_MS }])
    clock.advance(500)
    state.isDown = false
    const [block] = emitted(await stage.decide([message], signal), 'rows.finished')
    expect(block?.value.part).toBe(2_000)
    expect(rowsOf(block!.value.billable)).toEqual([0])
  })

  it('ends at once when its job is cancelled, though others before it still wait', async () => {
    const { stage, state, store, clock } = setUp()
    store.jobs.set('job_b', { ...acceptedJob(), id: 'job_b' })
    state.isDown = true
    const parts = [partOf([phone(0)], { job: 'job_b' }), partOf([phone(1)])]
    const [waiting, cancelled] = emitted(await stage.decide(parts, signal), 'rows.later')
      .map((later) => delivered(later))
    store.change(JOB, { status: 'cancelling' })
    const untilMs = clock.now() + 1_000
    const decisions = await stage.decide([waiting!, cancelled!], signal)
    expect(decisions).toMatchObject([
      { finishes: [cancelled] }, { postpone: waiting, untilMs },
    ])
    expect(reasonsIn(emitted(decisions.slice(0, 1), 'rows.finished')[0]!)).toEqual(['cancelled'])
    // Handed over once more along with the one that waits, it is over.
    store.change(JOB, { status: 'cancelled', ended: true })
    expect(await stage.decide([waiting!, cancelled!], signal))
      .toMatchObject([{ finishes: [cancelled], emits: [] }, { postpone: waiting }])
    expect(await stage.decide([cancelled!], signal)).toEqual([{ finishes: [cancelled], emits: [] }])
  })

  it('that is cancelled behind one that waits ends only once', async () => {
    const { stage, state, store, clock } = setUp()
    store.jobs.set('job_b', { ...acceptedJob(), id: 'job_b' })
    state.isDown = true
    const parts = [partOf([phone(0)], { job: 'job_b' }), partOf([phone(1)])]
    const [waiting, cancelled] = emitted(await stage.decide(parts, signal), 'rows.later')
      .map((later, offset) => delivered(later, offset))
    store.change(JOB, { status: 'cancelling' })
    const decided = await stage.decide([waiting!, cancelled!], signal)
    const [decision] = decided as Decision<'verify'>[]
    // Until its block is out it is decided again.
    expect(await stage.decide([waiting!, cancelled!], signal)).toHaveLength(2)
    await decision?.afterProduced?.()
    const untilMs = clock.now() + 1_000
    expect(await stage.decide([waiting!, cancelled!], signal)).toEqual([
      { postpone: waiting, untilMs },
    ])
    // Nothing waits before it any more: now its offset is done with.
    clock.advance(MINUTE_MS)
    expect(await stage.decide([waiting!, cancelled!], signal))
      .toMatchObject([{ finishes: [waiting] }, { finishes: [cancelled], emits: [] }])
    stage.forget()
    expect(emitted(await stage.decide([cancelled!], signal), 'rows.finished')).toHaveLength(1)
  })

  it('ends without a verdict, free, 15 minutes after its first try', async () => {
    const { stage, state, clock } = setUp()
    state.isDown = true
    let decisions = await stage.decide([partOf([phone(0)])], signal)
    const attempts: number[] = []
    for (let [later] = emitted(decisions, 'rows.later'); later !== undefined;
      [later] = emitted(decisions, 'rows.later')) {
      attempts.push(later.value.attempt)
      clock.advance(later.value.notBefore - clock.now())
      decisions = await stage.decide([delivered(later)], signal)
    }
    expect(attempts).toHaveLength(15)
    expect(clock.now() - QUOTED_AT_MS).toBe(15 * MINUTE_MS)
    const [block] = emitted(decisions, 'rows.finished')
    expect(reasonsIn(block!)).toEqual(['unavailable'])
    expect(block?.value.part).toBe(30_000)
    expect([rowsOf(block!.value.failed), rowsOf(block!.value.billable)]).toEqual([[0], []])
  })
})
