import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Journal } from '../../schemas/types.ts'
import { siblingOf } from '../../services/accounts/tenant.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { createLedgerStage } from '../../services/ledger/main.ts'
import { createOutbox, createWallet } from '../../services/money/wallet.ts'
import type { Emission } from '../../services/runtime/engine/stage.ts'
import { acceptClaimed, acceptRequest, blockOf, upTo } from '../support/jobs.ts'
import { createRecoveryEnvironment, entriesOf } from '../support/recovery/recovery-environment.ts'
import { action, createScenario, FUNDS } from '../support/recovery/recovery-scenario.ts'
import { startRedis } from '../support/redis/redis.ts'
import { incoming } from '../support/stage-messages.ts'

const { redis, connect } = await startRedis()
const wallet = createWallet(redis)
const outbox = createOutbox(redis)
const store = createJobStore(redis)
let tenants = 0
const newTenant = () => {
  tenants += 1
  return `org_${tenants}.live`
}

async function checkSums (tenant: string): Promise<void> {
  const now = await wallet.balance(tenant)
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = now
  expect(availableMicros + reservedMicros + chargedMicros).toBe(fundedMicros)
  expect(
    Math.min(availableMicros, reservedMicros, chargedMicros, fundedMicros)
  ).toBeGreaterThanOrEqual(0)
}

/** The balances that follow from an entry and those before it, by the words of the ledger alone. */
function fold (before: Balances, { type, amountMicros, chargeMicros }: Journal): Balances {
  const [available, reserved, charged, funded] = before
  switch (type) {
    case 'topup':
    case 'adjust': return [available + amountMicros, reserved, charged, funded + amountMicros]
    case 'reserve': return [available - amountMicros, reserved + amountMicros, charged, funded]
    default: {
      const returned = amountMicros - chargeMicros
      return [available + returned, reserved - amountMicros, charged + chargeMicros, funded]
    }
  }
}
type Balances = readonly [number, number, number, number]

async function checkJournal (tenant: string, entries: readonly Journal[]): Promise<void> {
  expect(entries.map(entry => entry.seq)).toEqual(upTo(entries.length).map(index => index + 1))
  expect(new Set(entries.map(entry => entry.entryId)).size).toBe(entries.length)
  let balances: Balances = [0, 0, 0, 0]
  for (const entry of entries) {
    balances = fold(balances, entry)
    expect([
      entry.availableMicros, entry.reservedMicros, entry.chargedMicros, entry.fundedMicros,
    ]).toEqual(balances)
  }
  await checkJobs(tenant, entries)
}

async function checkJobs (tenant: string, entries: readonly Journal[]): Promise<void> {
  for (const name of upTo(5).map(number => `job_${number}`)) {
    const found = await store.read(tenant, name)
    const types = entries.filter(entry => entry.job === name).map(entry => entry.type)
    if (found === undefined) expect(types).toEqual([])
    else if (!found.ended) expect(types).toEqual(['reserve'])
    else {
      expect(types[0]).toBe('reserve')
      expect(['settle', 'void']).toContain(types[1])
      expect(types).toHaveLength(2)
      expect(found.chargedMicros).toBe(found.counts.freshRecords * found.unitPriceMicros)
      expect(found.chargedMicros + found.releasedMicros).toBe(found.preflight.maxQuoteMicros)
      expect(found.counts.successRecords + found.counts.failedRecords)
        .toBe(found.preflight.totalRows)
    }
  }
}

const THRESHOLD_MICROS = 8_000

/** The jobs whose reservation took the balance below the threshold. */
const fallsIn = (entries: readonly Journal[]) => entries.filter(({ type, ...entry }) =>
  type === 'reserve' && entry.availableMicros < THRESHOLD_MICROS &&
  entry.availableMicros + entry.amountMicros >= THRESHOLD_MICROS).map(({ job }) => job)

/** What `ledger` emits when it reads this entry at this time, its copy aside. */
async function eventsCausedBy (
  entry: Journal, nowMs: number
): Promise<readonly Emission<'jobs.events'>[]> {
  const dropped = { append: async () => {} }
  const stage = createLedgerStage({
    journal: dropped,
    keys: dropped,
    access: dropped,
    clock: { now: () => nowMs },
    batch: 10,
    copyAfterMs: 0,
  })
  const message = incoming('wallet.journal', entry, { rows: () => undefined, offset: 0 })
  const decisions = await stage.decide([message], new AbortController().signal)
  return decisions.flatMap(decision => 'emits' in decision ? decision.emits : []) as
    readonly Emission<'jobs.events'>[]
}

describe('after any operations in any order', () => {
  const steps = fc.array(action, { maxLength: 40 })
  const start = () => {
    const environment = createRecoveryEnvironment(redis)
    const scenario = createScenario(
      redis, environment, newTenant(), { lowBalanceMicros: THRESHOLD_MICROS })
    const entries = async () => await entriesOf(
      environment, scenario.tenant, await outbox.pending(scenario.tenant))
    return { ...scenario, entries }
  }

  it('the balances add up to what was funded, and the journal explains them', async () => {
    await fc.assert(fc.asyncProperty(steps, async all => {
      const { tenant, act, entries } = start()
      for (const step of all) {
        await act(step)
        await checkSums(tenant)
      }
      await checkJournal(tenant, await entries())
    }), { numRuns: 300 })
  })

  it('balance.low was caused once for each fall of the balance below the threshold', async () => {
    let falls = 0
    await fc.assert(fc.asyncProperty(steps, async all => {
      const { tenant, act, entries } = start()
      for (const step of [FUNDS, ...all]) await act(step)
      const journal = await entries()
      const fallen = fallsIn(journal)
      const caused = await Promise.all(journal.map(entry => eventsCausedBy(entry, entry.at)))
      expect(caused.flat().map(({ value }) => [value.type, value.job]))
        .toEqual(fallen.map(job => ['balance.low', job]))
      // The event follows from the job alone, too, whenever it is sent.
      for (const { type, job, availableMicros } of journal) {
        if (type !== 'reserve') continue
        expect((await store.read(tenant, job))?.lowBalance).toEqual(fallen.includes(job)
          ? { thresholdMicros: THRESHOLD_MICROS, availableMicros }
          : undefined)
      }
      falls += fallen.length
    }), { numRuns: 80 })
    expect(falls).toBeGreaterThan(10)
  })
})

describe('amounts near the limits of doubles', () => {
  const amounts = [
    99_999_999_999_999, 100_000_000_000_000, 100_000_000_000_001, 123_456_789_012_345,
    999_999_999_999_999,
  ]

  it.each(amounts)('%d micros are reserved, charged and returned to the micro', async amount => {
    const tenant = newTenant()
    await wallet.topUp(tenant, { id: 'a', amountMicros: amount, reason: '' })
    const request = acceptRequest('job_1', { freshChecks: 1, unitPriceMicros: amount })
    expect((await acceptClaimed(store, tenant, request)).kind).toBe('accepted')
    expect(await wallet.balance(tenant)).toEqual({
      availableMicros: 0, reservedMicros: amount, chargedMicros: 0, fundedMicros: amount, seq: 2,
    })
    await store.tally(tenant, blockOf({ job: 'job_1', chunkRows: 1, inputs: true }, { live: [0] }))
    expect(await wallet.balance(tenant)).toEqual({
      availableMicros: 0, reservedMicros: 0, chargedMicros: amount, fundedMicros: amount, seq: 3,
    })
    await checkSums(tenant)
    await checkJournal(tenant, await outbox.pending(tenant))
  })

  it.each(
    [2 ** 53 - 1, 1_000_000_000_000_000]
  )('%d micros are refused before anything moves', async amount => {
    const tenant = newTenant()
    const topUp = wallet.topUp(tenant, { id: 'a', amountMicros: amount, reason: '' })
    await expect(topUp).rejects.toThrow('at most 15 digits')
    expect((await wallet.balance(tenant)).seq).toBe(0)
  })

  it('a sum above the limit is refused before anything moves', async () => {
    const tenant = newTenant()
    await wallet.topUp(tenant, { id: 'a', amountMicros: 999_999_999_999_999, reason: '' })
    expect(await wallet.topUp(tenant, { id: 'b', amountMicros: 1, reason: '' }))
      .toMatchObject({ kind: 'too_much' })
    expect(await wallet.balance(tenant))
      .toMatchObject({ fundedMicros: 999_999_999_999_999, seq: 1 })
  })
})

describe('many at once', () => {
  it.each([[20_000, 1], [100_000, 5], [119_999, 5], [0, 0]])(
    'a balance of %d accepts exactly %d jobs of 20,000 micros', async (micros, most) => {
      const tenant = newTenant()
      if (micros > 0) await wallet.topUp(tenant, { id: 'a', amountMicros: micros, reason: '' })
      const stores = upTo(5).map(() => createJobStore(connect()))
      const answers = await Promise.all(upTo(50).map(number => {
        const request = acceptRequest(`job_${number}`, { maxActiveJobs: 100 })
        return acceptClaimed(stores[number % 5]!, tenant, request)
      }))
      expect(answers.filter(answer => answer.kind === 'accepted')).toHaveLength(most)
      const left = micros - most * 20_000
      expect(answers.filter(answer => answer.kind === 'refused'))
        .toEqual(upTo(50 - most).map(() => ({
          kind: 'refused',
          refusal: { code: 'insufficient_balance', requiredMicros: 20_000, availableMicros: left },
        })))
      await checkSums(tenant)
      expect(await wallet.balance(tenant)).toMatchObject({ availableMicros: left })
    })

  it('one id of a top-up posts once', async () => {
    const tenant = newTenant()
    const movement = { id: 'same', amountMicros: 7, reason: '' }
    const answers = await Promise.all(upTo(20).map(() => wallet.topUp(tenant, movement)))
    expect(answers.filter(answer => answer.kind === 'posted')).toHaveLength(1)
    expect(answers.filter(answer => answer.kind === 'known')).toHaveLength(19)
    expect(await wallet.balance(tenant)).toMatchObject({ availableMicros: 7, seq: 1 })
  })
})

it('the slots of an organization are for its live and test jobs together', async () => {
  const live = newTenant()
  await wallet.topUp(live, { id: 'a', amountMicros: 20_000, reason: '' })
  const ask = (tenant: string, job: string) =>
    acceptClaimed(store, tenant, acceptRequest(job, { maxActiveJobs: 1 }))
  expect(await ask(live, 'job_1')).toMatchObject({ kind: 'accepted' })
  const inTest = (job: string) => ask(siblingOf(live), job)
  expect(await inTest('job_2')).toMatchObject({ refusal: { code: 'concurrent_jobs_limit' } })
  await store.tally(live, blockOf(
    { job: 'job_1', chunkRows: 10, inputs: true }, { live: upTo(10) }))
  expect(await inTest('job_3')).toMatchObject({ refusal: { code: 'insufficient_balance' } })
})
