import { expect, it } from 'vitest'
import { createClient } from '../../services/client/client.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { createOrganizationWith } from '../support/organizations.ts'
import { startEnvironment } from '../support/stacks/environment.ts'

const environment = closeAfterAll(await startEnvironment())

it('rows that lists decide are not checked and free, and the others are as ever', async () => {
  const { keys: { live: apiKey } } = await createOrganizationWith(environment.env,
    { availableMicros: 1_000_000 })
  const client = createClient({ apiKey, baseUrl: environment.baseUrl })
  const inputs = [
    '+12127365000', '+1 212 736 5001', '+12127365002', '+12127365001', '+12127365003', 'call me',
  ]
  const phones = { service: 'phone-validation', inputs }
  const before = await client.quote(phones)
  expect(before.preflight).toMatchObject({ freshChecks: 4, invalidRows: 1, duplicateRows: 1 })
  await client.changeContactLists({ action: 'suppress', entries: ['+1212736500*'] })
  await client.changeContactLists({ action: 'allow', entries: ['+12127365000'] })
  const { entries } = await client.changeContactLists({
    action: 'block', entries: ['+12127365002', '+12127365003'],
  })
  expect(entries).toBe(4)
  await client.changeContactLists({ action: 'remove', entries: ['+12127365003', '+1212736500*'] })
  await client.changeContactLists({ action: 'suppress', entries: ['+12127365001'] })
  expect(await client.contactLists()).toEqual({
    entries: 3, maxEntries: 1_000_000, lists: { allow: 1, block: 1, suppress: 1 },
  })
  expect(await client.lookUpContacts({ contacts: ['+1 212 736 5001', '+12127365003'] })).toEqual([
    { contact: '+1 212 736 5001', action: 'suppress' }, { contact: '+12127365003', action: null },
  ])
  // Processes use what they read of an organization for a second.
  await expect.poll(async () => (await client.quote(phones)).preflight)
    .toMatchObject({ freshChecks: 1, cacheHits: 1, invalidRows: 3, duplicateRows: 1 })

  const { id, preflight } = await client.createJob({ ...phones, forceFresh: true })
  expect(preflight)
    .toMatchObject({ freshChecks: 1, cacheHits: 1, invalidRows: 3, duplicateRows: 1 })
  const job = await client.waitForEnd(id)
  const rows = []
  for await (const row of client.resultRows(id)) {
    rows.push([row.status, row.reason, row.source, row.checks?.syntax])
  }
  expect(rows).toEqual([
    ['valid', 'allow_listed', 'cache', 'passed'],
    ['invalid', 'suppressed', 'preflight', 'passed'],
    ['invalid', 'block_listed', 'preflight', 'passed'],
    ['invalid', 'suppressed', 'duplicate', 'passed'],
    ['valid', 'assigned_range', 'live', 'passed'],
    ['invalid', 'not_a_phone_number', 'preflight', 'failed'],
  ])
  expect(job).toMatchObject({
    successRecords: 2,
    failedRecords: 4,
    freshRecords: 1,
    cacheHits: 1,
    invalidRecords: 3,
    duplicateRecords: 1,
    verdicts: { valid: 2, invalid: 4, risky: 0, unknown: 0 },
    reasons: {
      allow_listed: 1, assigned_range: 1, block_listed: 1, not_a_phone_number: 1, suppressed: 2,
    },
  })
  expect(job.chargedMicros * 2).toBe(before.preflight.maxQuoteMicros / 2)

  await expect(client.changeContactLists({ action: 'block', entries: ['a.example', 'no entry'] }))
    .rejects.toMatchObject({ status: 400, code: 'invalid_request', param: 'entries[1]' })
})

it('a CSV file changes all lists at once, or names its lines and changes nothing', async () => {
  const { keys: { live: apiKey } } = await createOrganizationWith(environment.env,
    { availableMicros: 0 })
  const client = createClient({ apiKey, baseUrl: environment.baseUrl })
  const file = Buffer.from('list,entry,kind\nsuppress,jane@a.example,\nblock,b.example,domain\n' +
    'allow,xyz,tld\nsuppress,mail.example.net,mx\n')
  await expect(client.changeContactListsFromFile(
    Buffer.concat([file, Buffer.from('allow,no entry,\ndeny,c.example,\n')])))
    .rejects.toMatchObject({
      status: 400, code: 'invalid_file', param: 'file', message: expect.stringContaining('Line 7'),
    })
  await expect(client.changeContactListsFromFile(
    Buffer.concat([file, Buffer.from('allow,no entry,\nblock,+4930*,number\n')])))
    .rejects.toMatchObject({
      message: expect.stringMatching(/2 lines.*Line 6: "no.*Line 7: "\+49/),
    })
  expect((await client.contactLists()).entries).toBe(0)
  expect(await client.changeContactListsFromFile(file))
    .toMatchObject({ entries: 4, lists: { allow: 1, block: 1, suppress: 2 } })
  const contacts = ['jane@a.example', 'joe@x.b.example', 'a.xyz', 'mx:mail.example.net', '+4930*']
  expect((await client.lookUpContacts({ contacts })).map(({ action }) => action))
    .toEqual(['suppress', 'block', 'allow', 'suppress', null])
  // As many as are taken, each as long as it may be.
  const longest = `${'a'.repeat(64)}@${'b.'.repeat(121)}a.example`
  expect(await client.lookUpContacts({ contacts: new Array<string>(1_000).fill(longest) }))
    .toHaveLength(1_000)
  // The same file removes what it has added.
  expect(await client.changeContactListsFromFile(file, { action: 'remove' }))
    .toMatchObject({ entries: 0 })
  const post = async (body: FormData | string) => {
    const answer = await fetch(`${environment.baseUrl}/contact-lists/file`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...typeof body === 'string' && { 'content-type': 'application/json' },
      },
      body,
    })
    const { entries, error } = await answer.json() as
      { entries?: number, error?: { code: string, param?: string } }
    return [answer.status, entries ?? error?.code, error?.param]
  }
  expect(await post('{}')).toEqual([415, 'unsupported_media_type', undefined])
  const form = new FormData()
  form.append('file', new Blob([file]), 'entries.csv')
  expect(await post(form)).toEqual([200, 4, undefined])
  form.append('action', 'remove')
  expect(await post(form)).toEqual([400, 'invalid_request', 'action'])
})
