import { LRUCache } from 'lru-cache'
import { expect, it } from 'vitest'
import { createJobStore } from '../../services/jobs/store.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { acceptRequest, blockOf } from '../support/jobs.ts'
import { jobKeysOf } from '../support/keys/organization-keys.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis } = await startRedis()
const store = createJobStore(redis)
const TENANT = 'org_a.live'

/**
 * What ingest, normalize, lookup, verify and settle ask for a job of one fresh row, in order. The
 * stages of one process share the data keys that they have read.
 */
async function runJob (job: string, { inOneProcess }: { inOneProcess: boolean }): Promise<void> {
  const row = { job, chunkRows: 1 }
  const newCache = () => new LRUCache<string, Buffer>({ max: 10 })
  const shared = newCache()
  const readKey = () => jobKeysOf({
    redis, cache: inOneProcess ? shared : newCache(),
  }).get(TENANT, job)
  await store.claim(TENANT, {
    job,
    idempotencyKey: job,
    fingerprint: 'f'.repeat(32),
    acceptWithinMs: 60_000,
    owner: 'a',
    wrappedKey: (await jobKeysOf({ redis }).create(TENANT, job)).wrapped,
  })
  await readKey()
  await readKey()
  const request = acceptRequest(job, { freshChecks: 1, idempotencyKey: job })
  const accepted = await store.accept(TENANT, request)
  if (accepted.kind === 'refused') throw new Error(accepted.refusal.code)
  await store.announce(TENANT, job, accepted.entry!.seq)
  await readKey()
  await store.batchAction(TENANT, job)
  await readKey()
  const blocks = [blockOf({ ...row, inputs: true }, {}), blockOf(row, { live: [0] })]
  const [ended] = await store.tallyAll(TENANT, blocks)
  // Without the manifest, settle would read it.
  if (ended?.kind !== 'counted' || ended.manifest === undefined) throw new Error('no manifest')
  await store.close(TENANT, job, ended.entry!.seq)
}

/** Commands that Redis carries out, those inside of scripts as well. */
async function callsOf (work: () => Promise<void>): Promise<ReadonlyMap<string, number>> {
  await redis.config('RESETSTAT')
  await work()
  const stats = await redis.info('commandstats')
  return new Map([...stats.matchAll(/^cmdstat_(?!config)([^:]+):calls=(\d+)/gm)]
    .map(([, name = '', calls]) => [name, Number(calls)]))
}

it.each([
  { inOneProcess: true, commands: 41 }, { inOneProcess: false, commands: 44 },
])('a job of one row asks the state Redis for $commands commands by 5 scripts if its stages are ' +
  'in one process: $inOneProcess', async ({ inOneProcess, commands }) => {
  await createWallet(redis).topUp(TENANT, { id: 'a', amountMicros: 1_000_000, reason: '' })
  // What Redis does not know yet is sent twice, and tenants are marked once a minute.
  await runJob(`job_first_${commands}`, { inOneProcess })
  const calls = await callsOf(() => runJob(`job_second_${commands}`, { inOneProcess }))
  const all = [...calls.values()].reduce((sum, each) => sum + each, 0)
  expect({ all, scripts: calls.get('evalsha') }, JSON.stringify([...calls]))
    .toEqual({ all: commands, scripts: 5 })
})
