import { randomUUID } from 'node:crypto'
import type { Journal } from '../../../schemas/types.ts'
import { tenantOf } from '../../../services/accounts/tenant.ts'
import type { Decision, Incoming } from '../../../services/runtime/engine/stage.ts'
import { createLedgerStage } from '../../../services/ledger/main.ts'
import { createRepositories } from '../../../services/jobs/results/finish-job.ts'
import { SettleStage } from '../../../services/settle/main.ts'
import type { connectAll } from '../stacks/connected.ts'
import { acceptClaimed, acceptRequest } from '../jobs.ts'
import { newOrganization } from '../organizations.ts'
import { arrived, blockEmission, live, textOf } from '../clickhouse/results.ts'
import { emitted, incoming } from '../stage-messages.ts'

const { signal } = new AbortController()
const coordinates = { chunks: 2, rows: 4, totalRows: 8 }

/** The inputs of a chunk. */
export const inputsOf = (chunk: number) => [0, 1, 2, 3].map(row => `raw ${chunk}.${row}, "x"`)

/** Seconds pass between two looks at it, so that everything is stored at once. */
function hurriedClock () {
  let nowMs = 0
  const now = () => {
    nowMs += 1_000
    return nowMs
  }
  return { now }
}

type All = ReturnType<typeof connectAll>

/** 8 rows, one of them invalid, one a duplicate. */
function emissions () {
  const at = (chunk: number) => ({ ...coordinates, chunk, firstRow: chunk * 4 })
  return [
    blockEmission(at(0), [[3, { ...live(''), status: 'invalid', source: 'preflight' }]],
      { batch: -1, inputs: inputsOf(0) }),
    blockEmission(at(1), [[1, { source: 'duplicate', duplicateOf: 2 }]],
      { batch: -1, inputs: inputsOf(1) }),
    blockEmission(at(0), [[0, live('a')], [1, live('b', 1)], [2, live('c')]]),
    blockEmission(at(1),
      [[0, live('d')], [2, live('e')], [3, { ...live('f'), status: 'unknown', source: 'none' }]]),
  ]
}

/** A tenant with 1 USD and one accepted job. */
async function startJob ({ env, keys, messageCodec, store, wallet }: All) {
  const tenant = tenantOf(await newOrganization(env), 'live')
  // An id beyond the largest ULID would be in no list.
  const job = `job_0${randomUUID()}`
  await wallet.topUp(tenant, { id: 'first', amountMicros: 1_000_000, reason: 'test' })
  const { wrapped } = await keys.create(tenant, job)
  const accepted = await acceptClaimed(store, tenant, {
    ...acceptRequest(job, { freshChecks: 6, invalidRows: 1, duplicateRows: 1 }),
    chunks: 2,
    wrappedKey: wrapped,
  })
  if (accepted.kind !== 'accepted') throw new Error('the job was refused')
  const messages = await Promise.all(emissions().map((one, offset) =>
    arrived({ ...one, value: { ...one.value, tenant, job } }, offset, messageCodec)))
  return { tenant, job, messages, wrapped }
}

/** Jobs that `settle` ends and `ledger` copies, on the stores of `all`, without other stages. */
export function createSettledJobs (all: All) {
  const { archive, connected, journal, keyCopy, results } = all
  const settle = new SettleStage({
    ...connected, ...createRepositories(connected), clock: hurriedClock(), batch: 1, batchBytes: 1,
  })
  const ledger = createLedgerStage({
    journal,
    keys: keyCopy,
    access: { append: async () => {} },
    clock: connected.clock,
    batch: 1,
    copyAfterMs: 0,
  })
  const producer = connected.bus.producer('journal')
  return {
    settle,
    start: () => startJob(all),

    /**
     * Ends and closes a job: other tests wait until their stack has no open one. Returns what is
     * emitted to the journal.
     */
    end: async (
      messages: readonly Incoming<'rows.completed'>[]
    ): Promise<readonly Journal[]> => {
      const decisions = await settle.decide(messages) as Decision<'settle'>[]
      await decisions[0]?.afterProduced?.()
      return emitted(decisions, 'wallet.journal').map(({ value }) => value)
    },

    /** What settle produces and ledger copies. */
    copy: async (entries: readonly Journal[]): Promise<void> => {
      await producer.send(await Promise.all(entries.map(async entry => ({
        topic: 'wallet.journal',
        key: entry.tenant,
        value: await connected.codec.encode('wallet.journal-value', entry),
        headers: {},
      }))))
      await ledger.decide(entries.map((entry, offset) =>
        incoming('wallet.journal', entry, { rows: () => undefined, offset })), signal)
    },

    /** The result file of a job whose record is stored. */
    csvOf: async (tenant: string, job: string): Promise<string> => {
      const found = await archive.find(tenant, job)
      if (found === undefined) throw new Error('the job is not stored')
      return await textOf(results.csvStream(found.job, found.manifest))
    },
  }
}
