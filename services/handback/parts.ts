import type { Static } from 'typebox'
import { createPartners } from '../accounts/partners.ts'
import type { JobKeys } from '../jobs/job-keys.ts'
import { createJobStore } from '../jobs/store.ts'
import type { Parts } from '../lib/connect.ts'
import { createKeyRing } from '../lib/key-ring.ts'
import { createArchive } from '../records/archive.ts'
import { createPartnerResults } from '../records/partner-results.ts'
import { createResultBlocks } from '../records/result-blocks.ts'
import { createResults } from '../records/results.ts'
import type { handbackConfig } from './config.ts'
import type { HandbackParts } from './stage.ts'

type Connected = Pick<Parts, 'bus' | 'codec' | 'state' | 'clickhouse'> &
  { readonly keys: Pick<JobKeys, 'get'> }

/** What the stage is made of, from its configuration and open connections. */
export function handbackParts (
  config: Static<typeof handbackConfig>, { bus, codec, state, clickhouse, keys }: Connected
): HandbackParts {
  const store = createJobStore(state)
  const archive = createArchive(clickhouse)
  const results = createResults({ blocks: createResultBlocks(clickhouse), codec, keys })
  return {
    partners: createPartners({ redis: state, ring: createKeyRing(config) }),
    findJob: async (tenant, job) =>
      await store.read(tenant, job) ?? (await archive.find(tenant, job))?.job,
    findArchived: archive.find,
    results,
    partnerResults: createPartnerResults({ codec, producer: bus.producer('handback.results') }),
    batch: config.BATCH_MESSAGES,
  }
}
