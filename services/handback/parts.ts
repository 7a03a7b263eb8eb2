import type { Static } from 'typebox'
import type { JobKeys } from '../jobs/job-keys.ts'
import { createJobStore } from '../jobs/store.ts'
import type { Parts } from '../lib/connect.ts'
import { createArchive } from '../records/archive.ts'
import { connectPartnerResults } from '../records/partner-results.ts'
import { createResultBlocks } from '../records/result-blocks.ts'
import { createResults } from '../records/results.ts'
import type { handbackConfig } from './config.ts'
import { connectPartners } from './partners.ts'
import type { HandbackParts } from './stage.ts'

type Connected = Pick<Parts, 'bus' | 'codec' | 'state' | 'clickhouse' | 'recordMac'> &
  { readonly keys: Pick<JobKeys, 'get'> }

/** Results that were not acknowledged for so long may never be. */
const WATCH_EVERY_MS = 5_000

/** What the stage is made of, from its configuration and open connections. */
export function handbackParts (
  config: Static<typeof handbackConfig>, connected: Connected
): HandbackParts {
  const { bus, codec, state, clickhouse, recordMac, keys } = connected
  const store = createJobStore(state)
  const archive = createArchive(clickhouse, recordMac)
  const results = createResults({ blocks: createResultBlocks(clickhouse), codec, keys })
  return {
    ...connectPartners(config, state),
    findJob: async (tenant, job) =>
      await store.read(tenant, job) ?? (await archive.find(tenant, job))?.job,
    findArchived: archive.find,
    results,
    partnerResults: connectPartnerResults({ bus, codec }, 'handback'),
    watchEveryMs: WATCH_EVERY_MS,
    batch: config.BATCH_MESSAGES,
  }
}
