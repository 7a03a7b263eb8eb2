import { expect, it } from 'vitest'
import { closeAfterAll } from '../support/close-after-all.ts'
import { eventually } from '../support/eventually.ts'
import { runJob, startEnvironment } from '../support/stacks/environment.ts'
import { newFolder } from '../support/folder.ts'
import { writeLists } from '../support/mail/lists-folder.ts'

const folder = newFolder('lists-')
const service = 'email-validation'

writeLists(folder, { disposable: 'first.org' }, { version: '2026.1' })
const environment = closeAfterAll(await startEnvironment(
  { LISTS_DIR: folder, LISTS_POLL_MS: '50' }, { stages: ['ingest', 'verify'] }))

/** The reasons of addresses, and where each verdict is from. */
async function verdictsOf (...inputs: readonly string[]) {
  const { rows } = await runJob(environment.live, { service, inputs: [...inputs] })
  return rows.map(row => [row.reason, row.source])
}

/** The lists of the service, without those that the folder leaves as they are. */
async function versions () {
  const services = await environment.live.services()
  return services.find(({ slug }) => slug === service)?.data
    .filter(({ name }) => /disposable/.test(name)).map(({ name, version }) => `${name} ${version}`)
}

it('lists in a folder ' +
  'are renewed while the services run: for new rows, and in the list of services', async () => {
  expect(await verdictsOf('jane@first.org', 'jane@second.org'))
    .toEqual([['disposable_domain', 'live'], ['domain_not_checked', 'none']])
  expect(await versions()).toEqual(['disposable_domains 2026.1'])
  writeLists(folder, { disposable: 'second.org' }, { version: '2026.2' })
  await eventually(async () => expect(await versions()).toEqual(['disposable_domains 2026.2']))
  // The verdict of the first job is in the cache, and stays until it expires.
  await eventually(async () => expect(await verdictsOf('jane@second.org', 'jane@first.org'))
    .toEqual([['disposable_domain', 'live'], ['disposable_domain', 'cache']]))
  expect(await verdictsOf('joe@first.org')).toEqual([['domain_not_checked', 'none']])
})
