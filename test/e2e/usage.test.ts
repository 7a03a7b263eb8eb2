import { expect, it } from 'vitest'
import { closeAfterAll } from '../support/close-after-all.ts'
import { createOrganizationWith } from '../support/organizations.ts'
import { eventually } from '../support/eventually.ts'
import { ask as askAt, startEnvironment } from '../support/stacks/environment.ts'

const environment = closeAfterAll(await startEnvironment())

const service = 'phone-validation'

const ask = (path: string, sent: Parameters<typeof askAt>[1]) =>
  askAt(`${environment.baseUrl}${path}`, sent)

it('usage and transactions agree with the job, its key and the balance', async () => {
  const { keys: { live: key } } = await createOrganizationWith(environment.env,
    { availableMicros: 1_000_000 })
  const metadata = { campaign: 'spring', n: '1' }
  const { json: created } = await ask('/jobs', {
    method: 'POST', key, body: { service, inputs: ['+12127365000', 'call me'], metadata },
  })
  await ask('/jobs', { method: 'POST', key, body: { service, inputs: ['call me'] } })
  await expect.poll(async () => (await ask('/jobs?status=completed', { key })).json.data.length)
    .toBe(2)
  const { json: job } = await ask(`/jobs/${created.id}`, { key })
  const usage = await eventually(async () => {
    const { json } = await ask('/usage?group_by=service,key', { key })
    expect(json.total.jobs).toBe(2)
    return json
  })
  expect(usage.data).toEqual([{
    ...usage.total, service, key: expect.stringMatching(/^key_[0-9a-f]{16}$/),
  }])
  expect(usage.total).toMatchObject({
    jobs: 2, totalRows: 3, freshRecords: 1, invalidRecords: 2, chargedMicros: job.chargedMicros,
  })
  const { valid, invalid, risky, unknown } = usage.total.verdicts
  expect({ valid, invalid, risky, unknown })
    .toEqual({ ...job.verdicts, invalid: job.verdicts.invalid + 1 })
  const csv = await ask('/usage', { key, headers: { accept: 'text/csv' } })
  expect([csv.status, csv.text.split('\r\n')[0]?.split(',').slice(0, 3)])
    .toEqual([200, ['day', 'jobs', 'totalRows']])
  expect(csv.text).toContain(`,${[valid, invalid, risky, unknown].join()}\r\n`)

  await expect.poll(async () => (await ask('/transactions', { key })).json.data.length).toBe(5)
  const { json: balance } = await ask('/balance', { key })
  const first = (await ask('/transactions?limit=2', { key })).json
  expect(first.data[0]).toMatchObject({
    id: 'txn_5', availableMicros: balance.availableMicros, balanceMicros: balance.balanceMicros,
  })
  const { json: rest } = await ask(`/transactions?after=${first.next_cursor}`, { key })
  expect(rest.data.map((one: { id: string }) => one.id)).toEqual(['txn_3', 'txn_2', 'txn_1'])
  const settled = (await ask('/transactions?type=settle', { key })).json.data
  expect(settled.find((one: { jobId: string }) => one.jobId === job.id))
    .toMatchObject({ amountMicros: 2_000, chargedMicros: job.chargedMicros })

  const found = await ask('/jobs?metadata[campaign]=spring&metadata[n]=1', { key })
  expect(found.json).toEqual({ data: [job], has_more: false, next_cursor: null })
  expect((await ask('/jobs?metadata[campaign]=fall', { key })).json.data).toEqual([])
  const range = `created_from=${job.createdAt}&created_to=${job.createdAt.slice(0, 10)}`
  expect((await ask(`/jobs?${range}`, { key })).json.data).toHaveLength(2)
  expect((await ask('/jobs?created_to=2026-01-01', { key })).json.data).toEqual([])
})
