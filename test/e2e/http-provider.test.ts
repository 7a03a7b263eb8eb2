import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import type { Journal } from '../../schemas/types.ts'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { connectClickhouse } from '../../services/lib/clickhouse.ts'
import { createJournalCopy } from '../../services/records/journal-copy.ts'
import { filesWith } from '../support/bytes.ts'
import { batchDescription, startVendor, type Vendor } from '../support/vendor.ts'
import { CANARIES } from '../support/vendor-words.ts'
import { runJob, startWorld, type World } from '../support/world.ts'

let vendor: Vendor
let world: World
beforeAll(async () => {
  vendor = await startVendor()
  world = await startWorld({
    PROVIDERS: JSON.stringify({ whatsapp: ['http:1'], 'phone-validation': ['numbering-plan'] }),
    HTTP_PROVIDERS: JSON.stringify([batchDescription(vendor.url)]),
    PROVIDER_TIMEOUT_MS: '500',
    PROVIDER_RETRIES: '0',
    PROVIDER_OPEN_MS: '100',
    LATER_AFTER_MS: '200',
    GIVE_UP_AFTER_MS: '1500',
  })
})
afterAll(async () => {
  await world?.stop()
  await vendor?.stop()
})
beforeEach(async () => { await vendor.behave('well') })

/** Numbers that no other run has asked about, so that none is cached. */
let serial = 300_000 + Date.now() % 600_000
const numbers = (lastDigits: readonly number[]) =>
  lastDigits.map((digit) => `+1212${serial++}${digit}`)

const columns = (row: Readonly<Record<string, string>>) =>
  [row.status, row.reason, row.whatsapp, row.carrier, row.source].join(' ')

/** Every answer of the interface about a job, with its headers; wrong questions included. */
async function everyAnswer (id: string): Promise<string> {
  const headers = { authorization: `Bearer ${world.keys.live}` }
  const paths = ['', '/results', '/results?format=json', '/nothing', '/cancel']
  const answers = await Promise.all(paths.flatMap((path) => ['GET', 'POST'].map(async (method) => {
    const response = await fetch(`${world.baseUrl}/jobs/${id}${path}`, { method, headers })
    return JSON.stringify([...response.headers]) + await response.text()
  })))
  return answers.join('\n')
}

/** A word as it is, and as base64 may have made it, wherever it stood. */
const formsOf = (word: string) => [
  Buffer.from(word), Buffer.from(word.toLowerCase()), Buffer.from(word, 'utf16le'),
  ...[0, 1, 2].map((shift) => Buffer.from('\0'.repeat(shift) + word).toString('base64'))
    .map((text) => Buffer.from(text.replace(/=+$/, '').slice(4, -2)))
    .filter((core) => core.length >= 8),
]

function filesNaming (words: readonly string[]): readonly string[] {
  const forms = words.flatMap(formsOf)
  return [inject('stackDataDir'), world.services.dataDir].flatMap(folder =>
    filesWith(folder, forms))
}

/** The entries of a job, once the journal's copy has both. */
async function journalOf (tenant: string, job: string): Promise<readonly Journal[]> {
  const clickhouse = connectClickhouse(inject('stack').CLICKHOUSE_URL ?? '')
  try {
    for (;;) {
      const links = await createJournalCopy(clickhouse).read(tenant)
      const entries = links.map(({ entry }) => entry).filter(entry => entry.job === job)
      if (entries.length > 1) return entries
      await new Promise((resolve) => { setTimeout(resolve, 20) })
    }
  } finally {
    await clickhouse.close()
  }
}

async function untilPutOff (): Promise<void> {
  for (;;) {
    const verify = world.services.list().filter(({ name }) => name.startsWith('verify'))
    const pages = await Promise.all(verify.map(async ({ metricsUrl }) =>
      await (await fetch(metricsUrl)).text()))
    if (/^parts_put_off_total\{[^}]*whatsapp[^}]*\} [1-9]/m.test(pages.join('\n'))) return
    await new Promise((resolve) => { setTimeout(resolve, 20) })
  }
}

describe('a live job of a described vendor', () => {
  it('completes with its answers in our words, and is paid for by verdicts', async () => {
    const inputs = numbers([0, 1, 2, 9])
    const { job, rows } = await runJob(world.live, { service: 'whatsapp', inputs })
    expect(rows.map(columns)).toEqual([
      'valid registered true  live', 'valid not_registered false  live',
      'valid registered true Example Mobile live', 'unknown unclear_answer   live',
    ])
    expect(job).toMatchObject({ status: 'completed', successRecords: 3, failedRecords: 1 })
    expect(job.chargedMicros * 4).toBe(job.maxQuoteMicros * 3)
    expect((await vendor.state()).numbers.toSorted()).toEqual(inputs.toSorted())
  })

  it('has its money put aside before the vendor is first called', async () => {
    const inputs = numbers(Array(60).fill(2) as number[])
    const { job } = await runJob(world.live, { service: 'whatsapp', inputs })
    const { callsAtMs, numbers: asked } = await vendor.state()
    // Nobody else asks this vendor, so every call was for this job.
    expect(asked.toSorted()).toEqual(inputs.toSorted())
    const entries = await journalOf(tenantOf(world.orgId, 'live'), job.id)
    expect(entries.map(({ type }) => type)).toEqual(['reserve', 'settle'])
    const [reserve, settle] = entries
    expect(reserve?.amountMicros).toBe(job.maxQuoteMicros)
    for (const atMs of callsAtMs) {
      expect(atMs).toBeGreaterThanOrEqual(reserve?.at ?? Infinity)
      expect(atMs).toBeLessThanOrEqual(settle?.at ?? -Infinity)
    }
  })

  it('is put off while the vendor is down, and goes on when it is back', async () => {
    await vendor.behave('down')
    const running = runJob(world.live, { service: 'whatsapp', inputs: numbers([0, 1]) })
    await untilPutOff()
    await vendor.behave('well')
    const { job, rows } = await running
    expect(rows.map(columns))
      .toEqual(['valid registered true  live', 'valid not_registered false  live'])
    expect(job.chargedMicros).toBe(job.maxQuoteMicros)
  })

  it.each(['down', 'garbage', 'erring', 'limiting', 'hanging'] as const)(
    'ends unknown and free when the vendor stays %s', async (mode) => {
      await vendor.behave(mode)
      const { job, rows } = await runJob(world.live, {
        service: 'whatsapp', inputs: numbers([0, 1]),
      })
      expect(rows.map(columns)).toEqual(Array(2).fill('unknown unavailable   live'))
      expect(job).toMatchObject({ status: 'completed', failedRecords: 2, chargedMicros: 0 })
      expect(job.releasedMicros).toBe(job.maxQuoteMicros)
      expect(await everyAnswer(job.id)).not.toMatch(new RegExp(CANARIES.join('|'), 'i'))
    })

  it('leaves no word of the vendor in any answer, file or log', async () => {
    const { job } = await runJob(world.live, { service: 'whatsapp', inputs: numbers([0, 4, 9]) })
    expect(await everyAnswer(job.id)).not.toMatch(new RegExp(CANARIES.join('|'), 'i'))
    // Short words stand by chance in the names of many thousand cache entries.
    expect(filesNaming(CANARIES.filter(word => word.length > 5))).toEqual([])
    // The same search finds what the stores do hold: the job.
    expect(filesNaming([job.id])).not.toEqual([])
  })
})
