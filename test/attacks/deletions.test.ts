import { describe, expect, it } from 'vitest'
import type { JobStatusResource } from '../../services/client/client.ts'
import { Clickhouse } from '../../services/runtime/platform/clickhouse.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { seededRandom } from '../support/random.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { runAudit } from '../support/audit.ts'
import { eventually } from '../support/eventually.ts'
import { sumOf } from '../support/metrics.ts'
import { untilConsumed } from '../support/kafka/offsets.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'
import { startRecovering, RECOVERING_STAGES } from '../support/recovery/recovering.ts'
import { parseCsv } from '../support/stacks/environment.ts'
import { createAdversary } from './adversary.ts'

const SEED = Number(process.env['ATTACK_SEED'] ?? 1)
const STAGES = [...RECOVERING_STAGES, 'deliver']
const random = seededRandom(SEED)
const inputs = mixedPhones(40)

const receiver = await startReceiver()

const environment = closeAfterAll(await startRecovering(
  STAGES, { STALLED_AFTER_MS: '2000', ACCEPT_WITHIN_MS: '4000' }, STAGES))
const clickhouse = closeAfterAll(new Clickhouse(environment.env['CLICKHOUSE_URL'] ?? ''))
const adversary = closeAfterAll(await createAdversary(environment.env))

const post = (retries?: number) =>
  environment.client(retries === undefined ? {} : { retries }).createJob({
    service: 'phone-validation',
    inputs,
    forceFresh: true,
    webhook_url: `http://127.0.0.1:${receiver.port}/`,
  })

const balance = () => createWallet(environment.redis).balance(environment.tenant)

async function verdictsOf (id: string) {
  return parseCsv(await environment.client().results(id))
    .map(({ row, input, status, reason }) => ({ row, input, status, reason }))
}

type Verdicts = Awaited<ReturnType<typeof verdictsOf>>

/** A job without an attack: the content of each row, and its charge. */
async function runUsual (): Promise<{ readonly job: JobStatusResource, readonly rows: Verdicts }> {
  // A stage that was away may need longer than the request waits.
  const { id } = await eventually(() => post())
  const job = await environment.client().waitForEnd(id)
  expect(job.status).toBe('completed')
  return { job, rows: await verdictsOf(id) }
}

/** Each row says what it always did, or that it is unknown; the inputs of a chunk may be lost. */
function expectTrue (rows: Verdicts, usual: Verdicts): void {
  expect(rows.length).toBe(usual.length)
  for (const [at, row] of rows.entries()) {
    const known = { ...usual[at]!, input: row.input === '' ? '' : usual[at]!.input }
    const { status, reason } = row
    expect(row).toEqual(status === 'unknown' ? { ...known, status, reason } : known)
  }
}

const READER = {
  'rows.submitted.small': 'normalize',
  'rows.normalized.small': 'lookup',
  'rows.to-verify.small.phone-validation': 'verify',
  'rows.completed.small': 'settle',
} as const

describe(`a deletion of Kafka records, seed ${SEED}`, () => {
  it.each(Object.entries(READER))(
    'in %s leaves rows unknown and free, or the request refused', async (topic, reader) => {
      const usual = await runUsual()
      const before = await balance()
      const known = (await adversary.capture(topic)).length
      await environment.services.setScale({ [reader]: 0 })
      const posting = [0, 1, 2].map(() => post(0).catch((error: unknown) => error as Error))
      await eventually(async () => {
        expect((await adversary.capture(topic)).length).toBeGreaterThan(known)
      })
      await adversary.remove(topic, (low, high) =>
        low + Math.ceil(random() * (high - low)))
      await environment.services.setScale({})
      let chargedMicros = 0
      for (const created of await Promise.all(posting)) {
        if (created instanceof Error) {
          expect(created).toMatchObject({ status: 503 })
          continue
        }
        const job = await environment.client().waitForEnd(created.id)
        chargedMicros += job.chargedMicros ?? 0
        expect(job.chargedMicros).toBeLessThanOrEqual(usual.job.chargedMicros ?? 0)
        expectTrue(await verdictsOf(created.id), usual.rows)
      }
      const { job: { chargedMicros: last = 0 }, rows } = await runUsual()
      expect([last, rows]).toEqual([usual.job.chargedMicros, usual.rows])
      expect(await balance()).toMatchObject({
        reservedMicros: 0,
        chargedMicros: before.chargedMicros + chargedMicros + Number(last),
        fundedMicros: before.fundedMicros,
      })
      await environment.shipped()
      expect((await runAudit(environment.env, { only: [environment.tenant] })).breaches).toEqual([])
    })

  it('of ended jobs stops no later event and no later job', async () => {
    await environment.services.setScale({ deliver: 0 })
    await runUsual()
    await adversary.remove('jobs.settled', (_low, high) => high)
    await environment.services.setScale({})
    const { job } = await runUsual()
    await eventually(() => {
      expect(receiver.received.some(({ body }) => body.includes(job.id))).toBe(true)
    })
  })

  it('of the money journal changes no balance, stops no job, and audit reports it', async () => {
    const usual = await runUsual()
    await environment.shipped()
    // The audit waits for the copy, from which on the entries are in two places.
    expect((await runAudit(environment.env, { only: [environment.tenant] })).breaches).toEqual([])
    const before = await balance()
    await adversary.remove('wallet.journal', (_low, high) => high)
    expect(await balance()).toEqual(before)
    const { job, rows } = await runUsual()
    expect([job.chargedMicros, rows]).toEqual([usual.job.chargedMicros, usual.rows])
    expect(await balance()).toMatchObject({
      reservedMicros: 0,
      chargedMicros: before.chargedMicros + (job.chargedMicros ?? 0),
      fundedMicros: before.fundedMicros,
    })
    await environment.shipped()
    expect((await runAudit(environment.env, { only: [environment.tenant] })).breaches)
      .not.toEqual([])
  })

  it('of the money journal before they are copied stops no copy, and the audit names them; ' +
    'what comes after all is copied', async () => {
    await environment.shipped()
    await untilConsumed(environment.env)
    const { seq: first } = await balance()
    await environment.services.setScale({ ledger: 0 })
    await runUsual()
    await environment.shipped()
    const { seq: last } = await balance()
    const removed = await adversary.capture('wallet.journal')
    await adversary.remove('wallet.journal', (_low, high) => high)
    await environment.services.setScale({})
    await runUsual()
    const rule = 'every movement is in the journal'
    const lost = async () =>
      (await runAudit(environment.env, { only: [environment.tenant], waitMs: 0 })).breaches
        .filter(breach => breach.rule === rule)
    const missing = () => sumOf(environment.services.list(), 'journal_entries_missing')
    const detail = `entries ${first + 1} to ${last} were lost from the journal before they were ` +
      'copied: neither the outbox nor Kafka nor the copy has them'
    await eventually(async () =>
      expect(await lost()).toEqual([{ tenant: environment.tenant, job: '', rule, detail }]))
    await eventually(async () => expect(await missing()).toBe(last - first))
    await adversary.send(removed)
    await eventually(async () => expect(await lost()).toEqual([]))
  })
})

describe('a deletion of rows in ClickHouse', () => {
  const remove = (table: string, job: string) => clickhouse.command(
    `DELETE FROM ${table} WHERE tenant = {tenant:String} AND job = {job:String}`,
    { tenant: environment.tenant, job })
  // A 500 is an alert of its own.
  it('of result_blocks makes the results of that job unavailable, and of no other', async () => {
    const errors = () =>
      sumOf(environment.services.list(), 'http_requests_total', { status: '500' })
    const [kept, attacked] = [await runUsual(), await runUsual()]
    const [before, errorsBefore] = [await balance(), await errors()]
    await remove('result_blocks', attacked.job.id)
    await expect(environment.client({ retries: 0 }).results(attacked.job.id))
      .rejects.toMatchObject({ status: 500 })
    expect(await errors()).toBe(errorsBefore + 1)
    expect(await verdictsOf(kept.job.id)).toEqual(kept.rows)
    expect(await balance()).toEqual(before)
    expect(await environment.client().job(attacked.job.id)).toEqual(attacked.job)
    expect((await runUsual()).rows).toEqual(kept.rows)
  })

  it('of jobs loses no results while Redis has the record of the job', async () => {
    const { job, rows } = await runUsual()
    const before = await balance()
    await remove('jobs', job.id)
    expect(await verdictsOf(job.id)).toEqual(rows)
    expect(await balance()).toEqual(before)
    expect(await environment.client().job(job.id)).toEqual(job)
  })

  it.each(['deliveries', 'journal'])('of %s changes no result and no money', async table => {
    const { job, rows } = await runUsual()
    await environment.shipped()
    await untilConsumed(environment.env)
    const before = await balance()
    await remove(table, job.id)
    expect(await balance()).toEqual(before)
    expect(await verdictsOf(job.id)).toEqual(rows)
    expect((await runUsual()).rows).toEqual(rows)
  })
})
