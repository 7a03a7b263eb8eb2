import { describe, expect, it } from 'vitest'
import { closeAfterAll } from '../support/close-after-all.ts'
import { createOrganizationWith } from '../support/organizations.ts'
import {
  ask as askAt, parseCsv, runJob, type Sent, startEnvironment, verdictsOf,
} from '../support/stacks/environment.ts'
import { whileStopped } from '../support/stacks/processes.ts'

// Live keys are answered by the sandbox too, so that unavailable checks keep a live job open.
const PROVIDERS = JSON.stringify({
  'phone-validation': ['sandbox'], 'email-validation': ['email-domain'],
})
const environment = closeAfterAll(await startEnvironment({ RETRY_DELAY_MS: '200', PROVIDERS },
  { stages: ['verify'] }))

const ask = (path: string, sent: Sent = {}) =>
  askAt(`${environment.baseUrl}${path}`, { key: environment.keys.test, ...sent })

/** Works while no check is made. */
const whileHalted = <T>(work: () => Promise<T>) =>
  whileStopped(environment.services, 'verify-1', work)

const service = 'phone-validation'
/** A job with as many rows as a batch of checks has, and three batches whose check is down. */
const checkedAndDown = Array.from({ length: 200 }, (_, at) =>
  at < 50 ? `+1646730${5_000 + at}` : `+1646${730 + at}0005`)

describe('a job from a file', () => {
  const text = 'name;phone;status\r\n"Smith, ""A""";+12127365000;old\r\nBob;call me;\r\n' +
    'Cid;+1 212 736 5000;"=x"\r\n'
  const file = new TextEncoder().encode(text)
  const options = { service, column: 'phone', metadata: { team: 'a' } }
  const original = [
    { name: 'Smith, "A"', phone: '+12127365000', status: 'old' },
    { name: 'Bob', phone: 'call me', status: '' },
    { name: 'Cid', phone: '+1 212 736 5000', status: '=x' },
  ]

  it('returns the columns of the file beside its results, in every form', async () => {
    const { test } = environment
    const { preflight } = await test.quoteFile(file, options)
    expect(preflight).toMatchObject({ totalRows: 3, invalidRows: 1, duplicateRows: 1 })
    const { id } = await test.createJobFromFile(file, options)
    expect(await test.waitForEnd(id)).toMatchObject({
      hasOriginalColumns: true, metadata: { team: 'a' }, successRecords: 2,
    })
    const rows = parseCsv(await test.results(id, { join: 'original' }))
    expect(rows.map(({ name, phone, status }) => ({ name, phone, status }))).toEqual(original)
    expect(rows.map(it => [it['verified_status'], it['e164'], it['duplicate_of']])).toEqual([
      ['valid', '+12127365000', ''], ['invalid', '', ''], ['valid', '+12127365000', '1'],
    ])
    const page = await test.resultsPage(id, { join: 'original', limit: 2 })
    expect(page.data.map(it => it['original'])).toEqual(original.slice(0, 2))
    const lines = (await ask(`/jobs/${id}/results?format=jsonl&join=original`)).text.trim()
    expect(lines.split('\n').map(line => JSON.parse(line).original)).toEqual(original)
    const safe = await test.results(id, { join: 'original', safe: 'spreadsheet' })
    expect(safe).toContain("\r\nCid,+1 212 736 5000,'=x,")
    const asUploaded = await test.results(id, { join: 'original', delimiter: 'original' })
    expect(asUploaded).toMatch(/^name;phone;status;.*\r\n.*\r\nBob;call me;;/)
    expect(parseCsv(await test.results(id)).map(it => it['input']))
      .toEqual(original.map(({ phone }) => phone))
  })

  it('is the same request as its equivalent, which has no columns to join', async () => {
    const { test } = environment
    const key = '2f3d2c1b-0a9e-4d8c-b7a6-5f4e3d2c1b0a'
    const inputs = original.map(({ phone }) => phone)
    const { id } = await test.createJob({ service, inputs, metadata: { team: 'a' } }, key)
    expect(await test.createJobFromFile(file, options, key)).toMatchObject({ id })
    await test.waitForEnd(id)
    const { status, json } = await ask(`/jobs/${id}/results?join=original`)
    expect([status, json.error.code, json.error.param]).toEqual([400, 'invalid_request', 'join'])
  })
})

describe('a job with ids of its inputs', () => {
  const items = [
    { input: '+12127365000', id: 'a' }, '+12127360001', { input: '(212) 736-5000', id: 'b' },
    { input: 'call me', id: 'é, "c"' }, { input: '+12127365000', id: 'a' },
    { input: '+12127360002', id: '' }, { input: '', id: '=1+1' },
  ]
  const expected = ['a', null, 'b', 'é, "c"', 'a', null, '=1+1']
  const jobRequest = { service, inputs: items, countryCode: 'US', metadata: { team: 'a' } }

  it('returns the id of each row in every form', async () => {
    const { test } = environment
    expect((await test.quote(jobRequest)).preflight).toMatchObject({ totalRows: 7 })
    const key = '3f3d2c1b-0a9e-4d8c-b7a6-5f4e3d2c1b0a'
    const { id, preflight } = await test.createJob(jobRequest, key)
    expect(preflight).toMatchObject({ invalidRows: 2, duplicateRows: 2 })
    await test.waitForEnd(id)
    const rows = parseCsv(await test.results(id))
    expect(Object.keys(rows[0] ?? {}).at(-1)).toBe('id')
    expect(rows.map(it => it['id'] === '' ? null : it['id'])).toEqual(expected)
    expect(rows.map(it => it['duplicate_of'])).toEqual(['', '', '1', '', '1', '', ''])
    expect((await test.resultsPage(id)).data.map(it => it['id'])).toEqual(expected)
    const { text } = await ask(`/jobs/${id}/results?format=jsonl&columns=id,row&duplicates=drop`)
    expect(text.trim().split('\n').map(line => JSON.parse(line))).toEqual(
      [1, 2, 4, 6, 7].map(row => ({ id: expected[row - 1], row })))
    const provisional = await ask(`/jobs/${id}/results?format=jsonl&provisional=true`)
    expect(provisional.text.trim().split('\n').map(line => JSON.parse(line).id)).toEqual(expected)
    const safe = parseCsv(await test.results(id, { safe: 'spreadsheet' }))
    expect(safe.at(-1)?.['id']).toBe("'=1+1")
    const verified = await test.verify(jobRequest)
    expect(verified.results.map(it => it['id'])).toEqual(expected)
    expect(await test.createJob(jobRequest, key)).toMatchObject({ id })
    const { status } = await ask('/jobs', {
      method: 'POST',
      body: { ...jobRequest, inputs: items.map(it => typeof it === 'string' ? it : it.input) },
      headers: { 'idempotency-key': key },
    })
    expect(status).toBe(422)
  })
})

it('the list of jobs ' +
  'comes newest first, by pages, open ones and closed ones once each', async () => {
  const key = (await createOrganizationWith(environment.env,
    { availableMicros: 1_000_000 })).keys.live
  const post = async (input: string, slug = service) => (await ask('/jobs', {
    method: 'POST', key, body: { service: slug, inputs: [input], metadata: { n: input } },
  })).json.id as string
  const ids = []
  for (const last of ['0', '1', '2']) ids.push(await post(`+1212736500${last}`))
  const mail = await post('jane@mailinator.com', 'email-validation')
  const newest = [...ids, mail].toReversed()
  const list = async (query: string) => (await ask(`/jobs?${query}`, { key })).json
  const first = await list('limit=3')
  expect(first.data.map((job: { id: string }) => job.id)).toEqual(newest.slice(0, 3))
  expect([first.has_more, first.next_cursor]).toEqual([true, newest[2]])
  const second = await list(`limit=3&after=${first.next_cursor}`)
  expect(second).toMatchObject({ data: [{ id: newest[3] }], has_more: false, next_cursor: null })
  await expect.poll(async () => (await list('status=completed')).data.length).toBe(4)
  const oldest = (await list(`after=${newest[2]}`)).data[0]
  expect(oldest).toEqual((await ask(`/jobs/${newest[3]}`, { key })).json)
  expect((await list('service=email-validation')).data).toMatchObject([{ id: mail }])
  expect((await list('status=verifying')).data).toEqual([])
})

describe('a job that is cancelled', () => {
  it('in the middle of its checks ends with a complete file, charged for those alone', async () => {
    const sent = [...checkedAndDown, 'call me', checkedAndDown[199] ?? '']
    const key = environment.keys.live
    const before = (await ask('/balance', { key })).json
    const { id } = await environment.live.createJob({ service, inputs: sent })
    expect((await ask('/balance', { key })).json).toEqual({
      ...before,
      reservedMicros: before.reservedMicros + 400_000,
      availableMicros: before.availableMicros - 400_000,
    })
    await expect.poll(async () => (await environment.live.job(id)).freshRecords).toBe(50)
    await whileHalted(async () => {
      const first = await ask(`/jobs/${id}/cancel`, { method: 'POST', key })
      expect([first.status, first.json.id, first.json.status]).toEqual([202, id, 'cancelling'])
      const again = await ask(`/jobs/${id}/cancel`, { method: 'POST', key })
      expect([again.status, again.json.status]).toEqual([202, 'cancelling'])
    })
    const job = await environment.live.waitForEnd(id)
    const rows = parseCsv(await environment.live.results(id))
    expect(rows.map(row => row.input)).toEqual(sent)
    const checked = rows.filter(row => row.source === 'live' && row.status === 'valid')
    const left = rows.filter(row => row.source === 'none' && row.reason === 'cancelled')
    expect([checked.length, left.length]).toEqual([50, 150])
    expect(rows[201]).toMatchObject({ source: 'duplicate', duplicate_of: '200' })
    const chargedMicros = checked.length * 2_000
    expect(job).toMatchObject({
      status: 'cancelled',
      chargedMicros,
      releasedMicros: 400_000 - chargedMicros,
      freshRecords: checked.length,
      cancelledRecords: left.length,
      invalidRecords: 1,
      duplicateRecords: 1,
      cacheHits: 0,
      unknownRecords: 0,
      pendingRecords: 0,
    })
    expect(job.successRecords + job.failedRecords).toBe(202)
    expect(job).toMatchObject(verdictsOf(rows))
    const balanceMicros = before.balanceMicros - chargedMicros
    expect((await ask('/balance', { key })).json)
      .toMatchObject({ balanceMicros, reservedMicros: 0 })
    expect(await ask(`/jobs/${id}/cancel`, { method: 'POST', key }))
      .toMatchObject({ status: 409, code: 'job_not_cancellable' })
    expect((await ask('/jobs?status=cancelled', { key })).json.data).toMatchObject([{ id }])
  })

  it('before its checks have started costs nothing and has a whole file with its ids', async () => {
    const sent = ['+12127365009', 'call me', '+12127365009']
    const id = await whileHalted(async () => {
      const inputs = sent.map((input, row) => ({ input, id: `id ${row}` }))
      const { id } = await environment.live.createJob({ service, inputs, forceFresh: true })
      expect((await ask(`/jobs/${id}/cancel`, {
        method: 'POST', key: environment.keys.live,
      })).status)
        .toBe(202)
      return id
    })
    const job = await environment.live.waitForEnd(id)
    expect(job).toMatchObject({
      status: 'cancelled', chargedMicros: 0, failedRecords: 3, freshRecords: 0, cancelledRecords: 1,
    })
    const rows = parseCsv(await environment.live.results(id))
    expect(rows.map(row => [row.input, row.status, row.source, row['id']])).toEqual([
      [sent[0], 'unknown', 'none', 'id 0'], [sent[1], 'invalid', 'preflight', 'id 1'],
      [sent[2], 'unknown', 'duplicate', 'id 2'],
    ])
    expect(job).toMatchObject(verdictsOf(rows))
  })
})

describe('results', () => {
  it('from the cache have the checks that they were verified with', async () => {
    const rowsOf = async (input: string) => {
      const { created } = await runJob(environment.live, { service, inputs: [input] })
      return (await environment.live.resultsPage(created.id, {
        columns: ['source', 'confidence', 'checks'],
      })).data
    }
    // The checks of live keys are scripted here.
    const verified = { confidence: 90, checks: { syntax: 'passed', vendor: 'passed' } }
    expect(await rowsOf('+4915112345678')).toEqual([{ source: 'live', ...verified }])
    expect(await rowsOf('+49 151 12345678')).toEqual([{ source: 'cache', ...verified }])
  })
})
