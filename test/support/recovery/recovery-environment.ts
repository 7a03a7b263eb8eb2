import type { Redis } from 'ioredis'
import type { Completed, Journal } from '../../../schemas/types.ts'
import type { Attempt } from '../../../services/webhooks/deliveries.ts'
import type { Job } from '../../../services/jobs/job.ts'
import { createJobStore } from '../../../services/jobs/store.ts'
import { listServers } from '../../../services/runtime/platform/redis.ts'
import { systemClock } from '../../../services/runtime/platform/retry.ts'
import { createEmitter } from '../../../services/runtime/engine/stage.ts'
import type { AccountsDeps } from '../../../services/accounts/account-topics.ts'
import type { RestoreDeliveriesDeps } from '../../../services/ledger/restore-deliveries.ts'
import type { RawMessage } from '../../../services/runtime/kafka/bus.ts'
import { createRecoveryStore } from '../../../services/ledger/recovery-store.ts'
import { recover, type RecoveryDeps } from '../../../services/ledger/recovery.ts'
import { recountLostJobs, type RecountDeps } from '../../../services/ledger/rebuild-jobs.ts'
import {
  readSnapshots, takeSnapshots, type SnapshotDeps,
} from '../../../services/ledger/snapshots.ts'
import { extendChain } from '../../../services/money/journal.ts'
import { createTenants, type Tenants } from '../../../services/money/wallet.ts'
import { codec, createBlocksDouble, messageCodec } from '../clickhouse/results.ts'
import { createMemoryBus, type MemoryBus } from '../kafka/memory-bus.ts'
import { createMemoryReader } from '../kafka/memory-reader.ts'

export type LedgerDeps = RecoveryDeps & RecountDeps & RestoreDeliveriesDeps & SnapshotDeps &
  AccountsDeps & {
    readonly tenants: Tenants
  }

/** An archive of these jobs, by tenant and id. */
function archiveOf (archived: ReadonlyMap<string, Job>): LedgerDeps['archive'] {
  return {
    endedSince: async function * (endedMs) {
      yield * [...archived.values()].filter(job => job.endedAtMs >= endedMs)
    },
    findAll: async (tenants, ids) => new Map(tenants.flatMap(tenant => ids.flatMap(id => {
      const job = archived.get(`${tenant} ${id}`)
      return job === undefined ? [] : [[id, { ...job, closed: true }] as const]
    }))),
  }
}

/** What a ledger is made of: Redis is real, all else is in memory. `logged`: level and message. */
export function createRecoveryEnvironment (redis: Redis, seed = 1) {
  const bus = createMemoryBus({ seed, duplicateSends: 0.2, partitionsOf: () => 2 })
  const archived = new Map<string, Job>()
  const attempts: Attempt[] = []
  const logged: [level: string, message: string][] = []
  const counted: Record<string, number> = {}
  const log = (level: string) => (_fields: unknown, message?: string) => {
    logged.push([level, message ?? ''])
  }
  const emitter = createEmitter({ messageCodec, producerOf: () => bus.producer('ledger') })
  const blocks = createBlocksDouble()
  const store = createJobStore(redis)
  const pauses: number[] = []
  const deps: LedgerDeps = {
    redis,
    tenants: createTenants(redis),
    codec,
    messageCodec,
    emitter,
    blocks,
    store,
    accountsProducer: bus.producer('accounts'),
    recoveryStore: createRecoveryStore(redis),
    servers: () => listServers(redis),
    reader: createMemoryReader(bus, async () => {}),
    clock: systemClock,
    sleep: async ms => { pauses.push(ms) },
    log: { info: log('info'), warn: log('warn'), error: log('error') } as never,
    metrics: {
      count: (_name, labels, by = 1) => {
        const what = String((labels as { kind?: string }).kind)
        counted[what] = (counted[what] ?? 0) + by
      },
    },
    graceMs: 7,
    // Entries of this millisecond are included.
    snapshotBehindMs: -1_000,
    archive: archiveOf(archived),
    subscriptions: async () => [],
    deliverLags: async () => [],
    history: {
      listAll: async (tenants, jobs) =>
        attempts.filter(one => tenants.includes(one.tenant) && jobs.includes(one.job)),
    },
    journal: {
      lengths: () => lengthsOf(bus),
      heads: async from => new Map(await Promise.all([...from].map(async ([tenant, head]) =>
        [tenant, (await entriesOf({ bus }, tenant)).reduce(extendChain, head)] as const))),
    },
  }
  const save = async (jobs: readonly { readonly job: Job }[]) => {
    for (const { job } of jobs) archived.set(`${job.tenant} ${job.id}`, job)
  }
  return { bus, deps, store, emitter, blocks, save, attempts, logged, counted, pauses }
}

export type RecoveryEnvironment = ReturnType<typeof createRecoveryEnvironment>

let fences = 1_000
const { signal } = new AbortController()

/** The same dependencies, to whom a topic has lost messages. */
export function withoutMessages (
  deps: LedgerDeps, lossy: string, isLeft: (message: RawMessage) => boolean
): LedgerDeps {
  const reader: LedgerDeps['reader'] = {
    read: (topic, onMessages, limits) => deps.reader.read(topic, async messages => {
      await onMessages(topic === lossy ? messages.filter(isLeft) : messages)
    }, limits),
  }
  return { ...deps, reader }
}

/** A ledger takes the lead and compares all tenants. */
export async function compareAll (deps: LedgerDeps): Promise<void> {
  await recover(deps, String(fences += 1), { signal })
}

/** The ledger counts again what is marked. */
export async function countMarked (deps: LedgerDeps): Promise<void> {
  await recountLostJobs(deps, signal)
}

/** The leader writes snapshots down, from what it finds. */
export async function snapshotAll (deps: LedgerDeps): Promise<void> {
  await takeSnapshots(deps, await readSnapshots(deps, signal), signal)
}

/** Both, as a ledger does them when it takes the lead. */
export async function runLedger (deps: LedgerDeps): Promise<void> {
  await compareAll(deps)
  await countMarked(deps)
}

/** The journal's copy is never behind. */
async function lengthsOf (
  bus: Pick<MemoryBus, 'messages'>
): Promise<ReadonlyMap<string, number>> {
  const lengths = new Map<string, number>()
  for (const { value } of bus.messages('wallet.journal')) {
    const { tenant, seq } = await codec.decode('wallet.journal', value!) as Journal
    lengths.set(tenant, Math.max(seq, lengths.get(tenant) ?? 0))
  }
  return lengths
}

/** The entries of a tenant by the topic and the outbox, each number once, in order. */
export async function entriesOf (
  { bus }: Pick<RecoveryEnvironment, 'bus'>, tenant: string, pending: readonly Journal[] = []
): Promise<readonly Journal[]> {
  const bySeq = new Map<number, Journal>()
  for (const { value } of bus.messages('wallet.journal')) {
    const entry = await codec.decode('wallet.journal', value!) as Journal
    if (entry.tenant === tenant && !bySeq.has(entry.seq)) bySeq.set(entry.seq, entry)
  }
  for (const entry of pending) if (!bySeq.has(entry.seq)) bySeq.set(entry.seq, entry)
  return [...bySeq.values()].toSorted((a, b) => a.seq - b.seq)
}

/** All blocks of a tenant's job as the topic has them, in order. */
export async function blocksOf (
  { bus }: Pick<RecoveryEnvironment, 'bus'>, tenant: string, job: string
): Promise<readonly Completed[]> {
  const found: Completed[] = []
  for (const { value } of bus.messages('rows.completed.small')) {
    const block = await codec.decode('rows.completed', value!) as Completed
    if (block.tenant === tenant && block.job === job) found.push(block)
  }
  return found
}
