import { expect, it } from 'vitest'
import { OrganizationErasedError } from '../../../services/accounts/organization-key-store.ts'
import type { Incoming } from '../../../services/runtime/engine/stage.ts'
import type { Job } from '../../../services/jobs/job.ts'
import { publishJob, type PublishJobDeps } from '../../../services/publish/publish-job.ts'
import type { FeedRows } from '../../../services/jobs/results/results.ts'

const job = { id: 'job_1', service: 'whatsapp', feed: { partner: 'acme', partition: 2 } } as Job
const message = { value: { tenant: 'org_1.live', job: 'job_1' } } as Incoming<'jobs.settled'>
const signal = new AbortController().signal

async function * pieces (): AsyncIterable<FeedRows> {
  yield { rows: [], contacts: { offsets: [], references: [] } }
}

function depsWith (change: Partial<PublishJobDeps>): PublishJobDeps {
  return {
    partners: { keysOf: async () => [Buffer.alloc(32)] },
    findArchived: async () => ({ job, manifest: [] }),
    results: { feedRows: pieces },
    partnerResults: { send: async () => {} },
    progress: { read: async () => 0, write: async () => {} },
    isDeleted: async () => false,
    topicCheckMs: 60_000,
    stalledAfterMs: 60_000,
    ...change,
  }
}

const publish = (deps: PublishJobDeps, onStalled = () => {}) =>
  publishJob(deps, { message, feed: job.feed!, signal, onStalled })

it('a settled job without an archived record is not published', async () => {
  const deps = depsWith({ findArchived: async () => undefined })
  await expect(publish(deps)).rejects.toThrow('ClickHouse has no archived record')
})

it('a job of an erased organization has no results left, and becomes no dead letter', async () => {
  const keysOf = async () => { throw new OrganizationErasedError('org_1') }
  expect(await publish(depsWith({ partners: { keysOf } }))).toBeUndefined()
})

it('a job is stalled while its results are not acknowledged in time', async () => {
  const { promise: acknowledged, resolve: acknowledge } = Promise.withResolvers<void>()
  const { promise: stalled, resolve: onStalled } = Promise.withResolvers<void>()
  const publishing = publish(
    depsWith({ partnerResults: { send: () => acknowledged }, stalledAfterMs: 1 }), onStalled)
  await stalled
  acknowledge()
  expect(await publishing).toBeUndefined()
})
