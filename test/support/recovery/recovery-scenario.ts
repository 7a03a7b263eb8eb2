import type { Redis } from 'ioredis'
import fc from 'fast-check'
import type { Completed, Journal } from '../../../schemas/types.ts'
import { indexes } from '../../../services/runtime/platform/bitmap.ts'
import type { AcceptRequest, Feed } from '../../../services/jobs/job.ts'
import { createOutbox, createWallet } from '../../../services/money/wallet.ts'
import { remainingSteps, readEndRecord } from '../../../services/jobs/results/finish-job.ts'
import { toTallyBlock } from '../../../services/jobs/results/block.ts'
import { acceptClaimed, acceptRequest, blockOf, upTo } from '../jobs.ts'
import { blocksOf, snapshotAll, type RecoveryEnvironment } from './recovery-environment.ts'
import { codec, messageCodec } from '../clickhouse/results.ts'

const ROWS = 10
const job = fc.integer({ min: 0, max: 3 }).map(number => `job_${number}`)
const rows = fc.uniqueArray(fc.integer({ min: 0, max: ROWS - 1 }), { maxLength: ROWS })

/** What may happen to a tenant; names of jobs repeat. */
export const action = fc.oneof(
  fc.record({
    do: fc.constant('topUp' as const),
    id: fc.integer({ min: 0, max: 9 }),
    micros: fc.integer({ min: 1, max: 9_000 }),
  }),
  fc.record({
    do: fc.constant('adjust' as const),
    id: fc.integer({ min: 0, max: 9 }),
    micros: fc.integer({ min: -900, max: 900 }),
  }),
  fc.record({ do: fc.constant('accept' as const), job, price: fc.integer({ min: 0, max: 300 }) }),
  fc.record({
    do: fc.constant('tally' as const),
    job,
    live: rows,
    unknown: rows,
    inputs: fc.boolean(),
    /** The block waits in its topic until the next one comes. */
    late: fc.boolean(),
  }),
  fc.record({ do: fc.constant('finish' as const), job }),
  fc.record({ do: fc.constant('fail' as const), job }),
  fc.record({ do: fc.constant('ship' as const), keep: fc.boolean() }),
  fc.record({ do: fc.constant('archive' as const), job, close: fc.boolean() }),
  fc.record({ do: fc.constant('snapshot' as const) })
)
type Generated = typeof action extends fc.Arbitrary<infer A> ? A : never
type Tally = Extract<Generated, { do: 'tally' }>
export type Action =
  | Exclude<Generated, Tally>
  | Omit<Tally, 'live' | 'unknown'> & {
    readonly live: readonly number[]
    readonly unknown: readonly number[]
  }

/** Enough for most jobs of these actions. */
export const FUNDS: Action = { do: 'topUp', id: 10, micros: 9_000 }

/**
 * A tenant on which actions run by the real scripts, as the stages call them; `more` are further
 * terms of its jobs.
 */
export function createScenario (
  redis: Redis, environment: RecoveryEnvironment, tenant: string, more: Partial<AcceptRequest> = {}
) {
  const wallet = createWallet(redis)
  const outbox = createOutbox(redis)
  const { store } = environment
  const { produce, count } = createBlocks(environment, tenant)
  const ship = async (keep: boolean): Promise<void> => {
    const entries = await outbox.pending(tenant)
    await environment.emitter.emit(entries.map(value =>
      ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
    if (!keep) await outbox.remove(tenant, entries)
  }
  const accept = (id: string, price: number, feed?: Feed) => {
    const terms = { ...more, unitPriceMicros: price, header: Buffer.from(id) }
    return acceptClaimed(
      store, tenant, acceptRequest(id, feed === undefined ? terms : { ...terms, feed }))
  }
  const finish = async (id: string): Promise<void> => {
    await produce(id, finishedOf(tenant, id, { live: [], unknown: upTo(ROWS), inputs: true }))
    await count(id)
  }
  const archive = async (id: string, close: boolean): Promise<void> => {
    const found = await store.read(tenant, id)
    if (found === undefined || !found.ended || found.closed) return
    await ship(false)
    const ended = { job: found, entry: undefined }
    const archived = await readEndRecord({ store }, ended)
    if (archived === undefined) return
    await environment.save([archived])
    const finishing = remainingSteps({ store }, ended)
    await environment.emitter.emit(finishing.emits)
    if (close) await finishing.close()
  }
  const snapshot = () => snapshotAll(environment.deps)
  const steps = { wallet, store, accept, ship, finish, archive, produce, count, snapshot }
  const act = (step: Action) => perform(steps, tenant, step)
  /** Everything that waits in the topic is counted, and every job that runs comes to its end. */
  const endAll = async (): Promise<void> => {
    for (const { job: id } of await store.openJobs(tenant)) await count(id)
    for (const { job: id } of await store.openJobs(tenant)) await finish(id)
  }
  return { tenant, wallet, outbox, store, accept, act, ship, finish, archive, endAll }
}

export type Scenario = ReturnType<typeof createScenario>

/** Blocks on their way through the topic to the tally. */
function createBlocks ({ store, bus }: RecoveryEnvironment, tenant: string) {
  const behind = new Map<string, Completed[]>()
  const produce = async (id: string, block: Completed): Promise<Completed> => {
    const message = await messageCodec.encode({
      topic: 'rows.completed',
      lane: 'small',
      value: block,
      rows: { inputs: null, contacts: null, rows: [], duplicateOf: [], columns: [] },
    })
    await bus.producer('verify').send([message])
    const sent = await codec.decode('rows.completed', message.value!) as Completed
    behind.set(id, [...behind.get(id) ?? [], sent])
    return sent
  }
  /** As `settle` reads them: the messages of the topic, in order. */
  const count = async (id: string): Promise<void> => {
    for (const block of behind.get(id) ?? []) await store.tally(tenant, toTallyBlock(block))
    behind.delete(id)
  }
  return { produce, count }
}

type Steps = Pick<ReturnType<typeof createScenario>,
  'wallet' | 'store' | 'accept' | 'ship' | 'finish' | 'archive'> &
  { readonly snapshot: () => Promise<void> } & ReturnType<typeof createBlocks>

async function perform (
  { wallet, store, accept, ship, finish, archive, produce, count, snapshot }: Steps,
  tenant: string, step: Action
): Promise<void> {
  switch (step.do) {
    case 'topUp':
    case 'adjust': {
      const movement = { id: String(step.id), amountMicros: step.micros, reason: 'any' }
      if (step.micros !== 0) await wallet[step.do](tenant, movement)
      return
    }
    case 'accept':
      await accept(step.job, step.price)
      return
    case 'tally':
      if (await store.read(tenant, step.job) === undefined) return
      await produce(step.job, finishedOf(tenant, step.job, step))
      if (!step.late) await count(step.job)
      return
    case 'finish':
      if (await store.read(tenant, step.job) !== undefined) await finish(step.job)
      return
    case 'fail': {
      const open = await store.unfinishedRows(tenant, step.job)
      if (open !== undefined) {
        await store.fail(tenant, step.job, { digest: 'f'.repeat(64), finished: open })
      }
      return
    }
    case 'ship': return await ship(step.keep)
    case 'archive': return await archive(step.job, step.close)
    case 'snapshot': await snapshot()
  }
}

/** A block of the one chunk of a job: a row that is live is not unknown as well. */
function finishedOf (
  tenant: string, id: string,
  { live, unknown, inputs }:
  Pick<Extract<Action, { do: 'tally' }>, 'live' | 'unknown' | 'inputs'>
): Completed {
  const rest = unknown.filter(row => !live.includes(row))
  const block = blockOf({ job: id, chunkRows: ROWS, inputs }, { live, unknown: rest })
  return {
    tenant,
    job: id,
    service: 'phone-validation',
    chunk: 0,
    batch: 0,
    chunks: 1,
    firstRow: 0,
    rows: ROWS,
    totalRows: ROWS,
    inputs,
    finished: block.finished,
    cached: block.cached,
    live: block.live,
    invalid: block.invalid,
    unknown: block.unknown,
    cancelled: block.cancelled,
    duplicates: [],
    verdicts: block.verdicts,
    rowsSchema: 0,
    sealed: Buffer.alloc(0),
  }
}

/** Charged rows of a job by its blocks alone: the first block of each row counts. */
async function chargedRows (
  environment: RecoveryEnvironment, tenant: string, id: string
): Promise<number> {
  const seen = new Set<number>()
  let rows = 0
  for (const block of await blocksOf(environment, tenant, id)) {
    const charged = new Set(indexes(block.live))
    for (const row of indexes(block.finished)) {
      if (!seen.has(row) && charged.has(row)) rows += 1
      seen.add(row)
    }
  }
  return rows
}

/** The charge of each job of these entries once all have ended. */
export async function chargesOf (
  environment: RecoveryEnvironment, tenant: string, entries: readonly Journal[]
): Promise<ReadonlyMap<string, number>> {
  const charges = new Map<string, number>()
  for (const { type, job: id, amountMicros, chargeMicros } of entries) {
    if (type === 'reserve') {
      const priceMicros = amountMicros / ROWS
      charges.set(id, priceMicros * await chargedRows(environment, tenant, id))
    } else if (id !== '') charges.set(id, chargeMicros)
  }
  return charges
}
