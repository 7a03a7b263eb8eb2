import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ChunkLoader, toJobTerms, readChunks } from '../../services/lookup/read.ts'
import { OPTION_NAMES, optionsPriceMicros } from '../../services/jobs/options.ts'
import {
  createBlock, toRowOutcome, toTallyBlock, withoutVerdict,
} from '../../services/jobs/results/block.ts'
import { Checker } from '../../services/verify/checker.ts'
import { createSandboxProvider } from '../../services/verify/providers/sandbox.ts'
import { arrived } from '../support/clickhouse/results.ts'
import { accepted, acceptRequest } from '../support/jobs.ts'
import { startJobStore } from '../support/redis/redis.ts'
import { chunksOf, PROVIDER_LIMITS, QUOTED_AT_MS } from '../support/stage-messages.ts'

const { store, wallet, fundedTenant } = await startJobStore()
const JOB = 'job_1'
const FUNDED_MICROS = 1_000_000
const FRESHNESS_MS = 1_000_000

const name = fc.constantFrom(...OPTION_NAMES)
const date = fc.constantFrom('2026-01-31', '2026-06-30')
const names = fc.uniqueArray(name, { maxLength: 3 })
/** The answers of a vendor about one contact: the date is what it was asked about, if at all. */
const answers = fc.record({
  status: fc.constantFrom(...['valid', 'invalid', 'risky', 'unknown'] as const),
  names: fc.uniqueArray(name, { minLength: 2 }),
  date,
})
type ValueOf<T> = T extends fc.Arbitrary<infer V> ? V : never
type Answers = ValueOf<typeof answers>

const randomJob = fc.record({
  names,
  date,
  priceMicros: fc.nat({ max: 900 }),
  optionMicros: fc.array(fc.nat({ max: 900 }), { minLength: 5, maxLength: 5 }),
  forceFresh: fc.boolean(),
  rows: fc.array(fc.record({
    cached: fc.option(answers, { nil: undefined }), live: answers,
  }), { minLength: 1, maxLength: 12 }),
})

const fieldsOf = (answer: Answers, isDated: boolean): Record<string, string> => ({
  line_type: 'mobile',
  ...Object.fromEntries(answer.names.map(option => [option, 'yes'])),
  ...isDated && { reassigned_since: answer.date },
})

const recordOf = (answer: Answers, fields: Readonly<Record<string, string>>) => ({
  status: answer.status,
  reason: answer.status === 'unknown' ? 'no_answer' : 'assigned_range',
  confidence: 50,
  fields,
} as const)

/** The records by position that the job uses of those that are cached. */
async function hitsOf (
  { rows, forceFresh }: ValueOf<typeof randomJob>, options: readonly string[]
) {
  const messages = chunksOf(rows.map((_, row) => `+1212736${5000 + row}`), { forceFresh, options })
  const terms = toJobTerms(messages[0]!.value, FRESHNESS_MS, () => 100)
  const records = rows.map(({ cached }) => cached && {
    ...recordOf(cached, fieldsOf(cached, true)), checkedAtMs: QUOTED_AT_MS - 5, job: 'job_0',
  })
  const loader = new ChunkLoader({ find: async () => records })
  const { chunks: [chunk] } = await readChunks(messages, { terms, loader })
  return rows.map((_, row) => chunk?.hits[row])
}

/** Verdicts by position, of a vendor that answers all options, but not about each contact. */
async function checkRows (
  rows: readonly { readonly row: number, readonly live: Answers }[], options: readonly string[]
) {
  const checker = new Checker({
    lists: { 'phone-validation': ['numbering-plan'] },
    limits: PROVIDER_LIMITS,
    factories: {
      sandbox: createSandboxProvider,
      'numbering-plan': () => ({
        id: 1,
        services: ['phone-validation'],
        options: OPTION_NAMES,
        check: async () => rows.map(({ row, live }) =>
          ({ row, verdict: recordOf(live, fieldsOf(live, false)) })),
      }),
    },
  })
  const { signal } = new AbortController()
  const result = await checker.check(
    rows.map(({ row }) => ({ row, canonical: `+1212736${5000 + row}` })),
    { service: 'phone-validation', mode: 'live', signal, ...options.length > 0 && { options } })
  return result.verdicts
}

it('a job with options ' +
  'pays for rows whose options all have an answer, and repeats only such records', async () => {
  const seen = { paid: 0, refused: 0, hits: 0, misses: 0 }
  await fc.assert(fc.asyncProperty(randomJob, async wanted => {
    const { rows, forceFresh } = wanted
    const options = wanted.names.map(option =>
      option === 'reassigned_number' ? `${option}:${wanted.date}` : option).toSorted()
    const isAnswered = (answer: Answers) =>
      wanted.names.every(option => answer.names.includes(option))
    const isDated = (answer: Answers) =>
      !wanted.names.includes('reassigned_number') || answer.date === wanted.date
    const cached = await hitsOf(wanted, options)
    for (const [row, record] of cached.entries()) {
      const before = rows[row]!.cached
      if (before === undefined || before.status === 'unknown') continue
      expect(record !== undefined).toBe(!forceFresh && isAnswered(before) && isDated(before))
      seen[record === undefined ? 'misses' : 'hits'] += 1
    }
    const hits = cached.filter(record => record !== undefined).length
    const prices = Object.fromEntries(
      OPTION_NAMES.map((option, index) => [option, wanted.optionMicros[index]!]))
    const unitPriceMicros = wanted.priceMicros + optionsPriceMicros(prices, options, 'live')
    const wholeMicros = wanted.priceMicros +
      wanted.names.reduce((sum, option) => sum + prices[option]!, 0)
    const tenant = await fundedTenant(FUNDED_MICROS)
    await accepted(store, tenant, acceptRequest(JOB, {
      freshChecks: rows.length - hits, cacheHits: hits, unitPriceMicros,
    }))
    expect(await wallet.balance(tenant))
      .toMatchObject({ reservedMicros: rows.length * wholeMicros, chargedMicros: 0 })
    const verdicts = await checkRows(rows.flatMap(({ live }, row) =>
      cached[row] === undefined ? [{ row, live }] : []), options)
    const coordinates = {
      tenant,
      job: JOB,
      service: 'phone-validation',
      chunk: 0,
      chunks: 1,
      firstRow: 0,
      rows: rows.length,
      totalRows: rows.length,
    } as const
    const inputs = rows.map(() => '')
    const block = createBlock({ coordinates, batch: 0, inputs })
    for (const row of rows.keys()) {
      const verdict = verdicts.get(row)
      const record = cached[row] ?? (verdict && { ...verdict, checkedAtMs: 10 })
      const contact = {
        service: 'phone-validation', canonical: `+1212736${5000 + row}`, copies: 0,
      } as const
      block.add(row, record === undefined
        ? withoutVerdict('no_answer', { atMs: 10 })
        : toRowOutcome(record, contact, {
          source: cached[row] === undefined ? 'live' : 'cache', freshnessMs: FRESHNESS_MS,
        }))
    }
    await store.tally(tenant, toTallyBlock((await arrived(block.emission('small'))).value))
    const fresh = rows.filter((_, row) => cached[row] === undefined)
    const paid = fresh.filter(({ live }) => live.status !== 'unknown' && isAnswered(live)).length
    seen.paid += paid
    seen.refused += fresh.length - paid
    expect(await wallet.balance(tenant)).toMatchObject({
      availableMicros: FUNDED_MICROS - paid * wholeMicros,
      reservedMicros: 0,
      chargedMicros: paid * wholeMicros,
    })
  }), { numRuns: 300 })
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(50)
})
