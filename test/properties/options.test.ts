import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ChunkLoader, toJobTerms, readChunks } from '../../services/lookup/read.ts'
import { OPTION_NAMES, optionsPriceMicros } from '../../services/jobs/options.ts'
import { Checker } from '../../services/verify/checker.ts'
import { createSandboxProvider } from '../../services/verify/providers/sandbox.ts'
import { chunksOf, PROVIDER_LIMITS, QUOTED_AT_MS } from '../support/stage-messages.ts'

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

/** The simulation checks that a job pays the price of its verdicts with their options. */
it('a job with options ' +
  'has verdicts for rows whose options all have an answer, and repeats only such records',
async () => {
  const seen = { paid: 0, refused: 0, hits: 0, misses: 0 }
  await fc.assert(fc.asyncProperty(randomJob, async wanted => {
    const { rows, forceFresh } = wanted
    const options = wanted.names.map(option =>
      option === 'reassigned_number' ? `${option}:${wanted.date}` : option).toSorted()
    const isAnswered = (answer: Answers) =>
      wanted.names.every(option => answer.names.includes(option))
    const isDated = (answer: Answers) =>
      !wanted.names.includes('reassigned_number') || answer.date === wanted.date
    const prices = Object.fromEntries(
      OPTION_NAMES.map((option, index) => [option, wanted.optionMicros[index]!]))
    expect(optionsPriceMicros(prices, options, 'live'))
      .toBe(wanted.names.reduce((sum, option) => sum + prices[option]!, 0))
    const cached = await hitsOf(wanted, options)
    for (const [row, record] of cached.entries()) {
      const before = rows[row]!.cached
      if (before === undefined || before.status === 'unknown') continue
      expect(record !== undefined).toBe(!forceFresh && isAnswered(before) && isDated(before))
      seen[record === undefined ? 'misses' : 'hits'] += 1
    }
    const fresh = rows.flatMap(({ live }, row) => cached[row] === undefined ? [{ row, live }] : [])
    const verdicts = await checkRows(fresh, options)
    for (const { row, live } of fresh) {
      const isPaid = live.status !== 'unknown' && isAnswered(live)
      expect((verdicts.get(row)?.status ?? 'unknown') !== 'unknown').toBe(isPaid)
      seen[isPaid ? 'paid' : 'refused'] += 1
    }
  }), { numRuns: 300 })
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(50)
})
