import { createServer } from 'node:http'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { afterAll, expect, it } from 'vitest'
import { usageOf } from '../bench/usage.ts'
import { mobileNumber } from '../bench/jobs.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { startEnvironment } from '../support/stacks/environment.ts'
import { presetAt } from '../support/vendors/fake-vendors.ts'
import { newFolder } from '../support/folder.ts'
import { lowestCost } from '../support/lowest-cost.ts'
import { workbookOf } from '../support/workbooks.ts'
import { zipOf } from '../support/zip.ts'
import { listen } from '../support/listen.ts'

const MIB = 1_024 * 1_024
const INPUTS = ['+12127365000', '+12127365002', '+12127365004']

type Body = { readonly bytes: Buffer | string, readonly coding?: string }

const excel = (sheet: string, strings?: string) => workbookOf({
  ...strings !== undefined && { strings },
  more: { 'xl/worksheets/s0.xml': sheet },
})
const cell = (text: string) => `<c t="inlineStr"><is><t>${text}</t></is></c>`
const honest = excel('<worksheet><sheetData>' +
  [['Number', 'whatsapp'], ...INPUTS.map(number => [number, 'yes'])]
    .map(cells => `<row>${cells.map(cell).join('')}</row>`).join('') + '</sheetData></worksheet>')
const csv = `Number,whatsapp\n${INPUTS.map(number => `${number},yes\n`).join('')}`

/** Results of a task, each of which multiplies something. */
const ATTACKS: Readonly<Record<string, Body>> = {
  'three million rows': { bytes: excel(`<worksheet>${'<row/>'.repeat(2.6 * MIB)}</worksheet>`) },
  'rows that never end': { bytes: excel('<row>'.repeat(100_000)) },
  'rows that never end, in 860 bytes': { bytes: excel('<row '.repeat(24_000)) },
  'cells that never end': { bytes: excel(`<worksheet><row>${'<c>'.repeat(40_000)}`) },
  'a million texts': { bytes: excel('<worksheet/>', '<si/>'.repeat(MIB)) },
  'elements within elements': { bytes: excel('<a>'.repeat(40_000) + '</a>'.repeat(40_000)) },
  attributes: { bytes: excel(`<worksheet ${'a="" '.repeat(24_000)}/>`) },
  'entities of entities': {
    bytes: excel('<!DOCTYPE x [<!ENTITY a "b"><!ENTITY c "&a;&a;">]>' +
    '<worksheet><row><c><v>&c;</v></c></row></worksheet>')
  },
  'cells in the last column': {
    bytes: excel('<worksheet><sheetData><row><c t="str"><v>Number</v></c></row>' +
      `${'<row><c r="CVZ1"><v>1</v></c></row>'.repeat(5_000)}</sheetData></worksheet>`),
  },
  'a file that is all zeros': { bytes: zipOf({ 'results.csv': '\0'.repeat(15 * MIB) }) },
  'blank lines': { bytes: gzipSync('\n'.repeat(16 * MIB)), coding: 'gzip' },
  commas: { bytes: brotliCompressSync(','.repeat(16 * MIB)), coding: 'br' },
  'a wide head and short rows': {
    bytes: `Number,whatsapp${',x'.repeat(900)}\n${'1\n'.repeat(20_000)}`,
  },
  quotes: { bytes: `Number\n"${'""'.repeat(100_000)}` },
  'lists within lists': { bytes: '['.repeat(100_000) + ']'.repeat(100_000) },
  'thousands of files': {
    bytes: zipOf(Object.fromEntries(Array.from({ length: 5_000 },
      (_, index) => [`results${index}.csv`, csv])))
  },
}

const HONEST: Body = { bytes: honest }
/** What the vendor answers once; then it is honest. */
let results = HONEST
const vendor = createServer((request, response) => {
  const path = request.url ?? ''
  buffer(request).then(() => {
    if (path.startsWith('/results/')) {
      const { bytes, coding } = results
      results = HONEST
      if (coding !== undefined) response.setHeader('content-encoding', coding)
      response.end(bytes)
    } else if (path === '/v1/tasks') {
      response.end(JSON.stringify({ task_id: `task-${request.url}` }))
    } else {
      const url = `http://127.0.0.1:${port}/results/1`
      response.end(JSON.stringify({ status: 'exported', result_url: url }))
    }
  }).catch(() => response.destroy())
})

const plans = join(newFolder('verification-jobs-failpoints-'), 'plans')
writeFileSync(plans, '')
const port = await listen(vendor)
const preset = presetAt(`http://127.0.0.1:${port}`, 'http:checknumber', { id: 1 }) as
  { batch: object }
const environment = closeAfterAll(await startEnvironment({
  HTTP_PROVIDERS: JSON.stringify([{ ...preset, batch: { ...preset.batch, pollMs: 1_000 } }]),
  PROVIDERS: JSON.stringify({ 'phone-validation': ['numbering-plan'], whatsapp: ['http:1'] }),
  // Every answer is a failure, and the vendor is to be asked again all the same.
  PROVIDER_OPEN_PERCENT: '99',
  PROVIDER_SAMPLED_MS: '1000',
  PROVIDER_OPEN_MS: '1000',
  ALLOW_FAILPOINTS: 'true',
  FAILPOINTS: `@${plans}`,
}, { stages: ['ingest', 'verify'] }))
afterAll(() => { vendor.close() })

const verify = () => environment.services.list().find(({ name }) => name === 'verify-1')

/** The CPU of `verify` for a job whose results arrive as `bad` before they are good. */
async function cpuOfJob (bad: Body): Promise<number> {
  const { pid = 0 } = verify() ?? {}
  results = bad
  const { cpuSeconds } = usageOf(pid)
  const { id } = await environment.live.createJob({
    service: 'whatsapp', inputs: INPUTS, forceFresh: true,
  })
  const job = await environment.live.waitForEnd(id)
  expect([job.status, job.freshRecords, results]).toEqual(['completed', INPUTS.length, HONEST])
  expect(verify()?.pid).toBe(pid)
  return usageOf(pid).cpuSeconds - cpuSeconds
}

it('no answer of a vendor takes far more CPU than one that is merely broken', async () => {
  await cpuOfJob({ bytes: 'not a table' })
  const most = 2 * await cpuOfJob({ bytes: 'not a table' }) + 0.2
  for (const [name, body] of Object.entries(ATTACKS)) {
    expect([name, await lowestCost(() => cpuOfJob(body), most) <= most]).toEqual([name, true])
  }
  expect(await environment.breaches()).toEqual([])
})

it('a message that kills each process of its stage is set aside, and all others are decided',
  async () => {
    const before = verify()?.pid
    writeFileSync(plans, 'verify.decode:kill@chunk=1')
    const inputs = Array.from({ length: 4_500 }, (_, row) => mobileNumber(row))
    const { id } = await environment.live.createJob({
      service: 'phone-validation', inputs, forceFresh: true,
    })
    const job = await environment.live.waitForEnd(id, { timeoutMs: 300_000 })
    writeFileSync(plans, '')
    expect(verify()?.pid).not.toBe(before)
    expect([job.status, job.freshRecords]).toEqual(['completed', 2_500])
    expect(await environment.breaches()).toEqual([])
  })
