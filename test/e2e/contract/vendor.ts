import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import { Clickhouse } from '../../../services/runtime/platform/clickhouse.ts'
import { createJournalCopy } from '../../../services/money/journal.ts'
import { filesWith } from '../../support/bytes.ts'
import { eventually } from '../../support/eventually.ts'
import { recordMacOf } from '../../support/keys/signed.ts'
import { testStack } from '../../support/stacks/stack.ts'
import { CANARIES, type VendorMode } from '../../support/vendors/vendor-words.ts'
import { ended, newCustomer, newNumbers, shared } from './support.ts'

const columns = (row: Readonly<Record<string, string>>) =>
  [row.status, row.reason, row.whatsapp, row.carrier, row.source].join(' ')
const REGISTERED = ['valid registered true  live', 'invalid not_registered false  live']

/** A job of a live key whose vendor behaves so; numbers that end in 9 get an unclear answer. */
async function jobWith (mode: VendorMode, lastDigits: readonly number[]) {
  const { vendor } = shared()
  const { live } = await newCustomer()
  await vendor.behave(mode)
  const inputs = lastDigits.flatMap(digit => newNumbers(1, digit))
  const { job, rows } = await ended(live, { service: 'whatsapp', inputs })
  return { live, inputs, job, rows: rows.map(columns) }
}

/** The entries of a job, once the journal's copy has both. */
async function journalOf (tenant: string, job: string): Promise<readonly Journal[]> {
  const { env } = shared().environment
  const clickhouse = new Clickhouse(env['CLICKHOUSE_URL'] ?? '')
  const journal = createJournalCopy(clickhouse, recordMacOf(env))
  try {
    return await eventually(async () => {
      const { entries } = await journal.read(tenant)
      const found = entries.filter(entry => entry.job === job)
      expect(found.length).toBeGreaterThan(1)
      return found
    })
  } finally {
    await clickhouse.close()
  }
}

/** How often a part of the service was put off. */
async function putOff (): Promise<number> {
  const verify = shared().environment.services.list().find(({ name }) => name === 'verify-1')
  const page = await (await fetch(verify?.metricsUrl ?? '')).text()
  const series = /^verification_batches_retried_total\{[^}]*whatsapp[^}]*\} (\d+)/m
  return Number(series.exec(page)?.[1] ?? 0)
}

/** A word as it is, and as base64 may have made it, wherever it stood. */
const formsOf = (word: string) => [
  Buffer.from(word), Buffer.from(word.toLowerCase()), Buffer.from(word, 'utf16le'),
  ...[0, 1, 2].map(shift => Buffer.from('\0'.repeat(shift) + word).toString('base64'))
    .map(text => Buffer.from(text.replace(/=+$/, '').slice(4, -2)))
    .filter(core => core.length >= 8),
]

function filesNaming (words: readonly string[]): readonly string[] {
  const { dataDir, servicesDir } = testStack()
  const forms = words.flatMap(formsOf)
  return [dataDir, servicesDir].flatMap(folder => filesWith(folder, forms))
}

describe('a live job of a described vendor', () => {
  it('completes with its answers in standard terms, and is charged by verdicts: it ' +
    'takes the carrier of a provider that knows better', async () => {
    const { inputs, job, rows } = await jobWith('well', [0, 1, 2, 9])
    expect(rows).toEqual([
      ...REGISTERED, 'valid registered true Example Mobile live', 'unknown unclear_answer   none',
    ])
    expect(job).toMatchObject({ status: 'completed', successRecords: 3, failedRecords: 1 })
    expect(job.chargedMicros * 4).toBe(job.maxQuoteMicros * 3)
    expect((await shared().vendor.state()).numbers.toSorted()).toEqual(inputs.toSorted())
  })

  it('has its money reserved before the vendor is first called', async () => {
    const { inputs, job, live } = await jobWith('well', Array(60).fill(2) as number[])
    const { callsAtMs, numbers: checked } = await shared().vendor.state()
    // No other test uses this vendor, so every call was for this job.
    expect(checked.toSorted()).toEqual(inputs.toSorted())
    const [reserve, settle, ...more] = await journalOf(live.tenant, job.id)
    expect([reserve?.type, settle?.type, more]).toEqual(['reserve', 'settle', []])
    expect(reserve?.amountMicros).toBe(job.maxQuoteMicros)
    for (const atMs of callsAtMs) {
      expect(atMs).toBeGreaterThanOrEqual(reserve?.at ?? Infinity)
      expect(atMs).toBeLessThanOrEqual(settle?.at ?? -Infinity)
    }
  })

  it('is delayed while the vendor is down, and continues when it is back', async () => {
    const before = await putOff()
    const { job, rows } = await jobWith('recovering', [0, 1])
    expect(await putOff()).toBe(before + 1)
    expect(rows).toEqual(REGISTERED)
    expect(job.chargedMicros).toBe(job.maxQuoteMicros)
  })

  it.each(['down', 'garbage', 'erring', 'limiting'] as const)(
    'of rows the vendor has no verdict of ends unknown and free, when it is %s',
    async mode => {
      const { job, rows } = await jobWith(mode, [0, 1])
      expect(rows).toEqual(Array(2).fill('unknown unavailable   none'))
      expect(job).toMatchObject({
        status: 'completed',
        failedRecords: 2,
        freshRecords: 0,
        unknownRecords: 2,
        chargedMicros: 0,
      })
      expect(job.releasedMicros).toBe(job.maxQuoteMicros)
    })
})

it('answers of the vendor are in no file and no log', async () => {
  const { job } = await jobWith('well', [0, 4, 9])
  // Short words stand by chance in the names of many thousand cache entries.
  expect(filesNaming(CANARIES.filter(word => word.length > 5))).toEqual([])
  // The same search finds what the stores do hold: the job.
  expect(filesNaming([job.id])).not.toEqual([])
})
