import type { Completed, Journal } from '../../schemas/types.ts'
import type { Archive, ArchivedJob } from '../../services/jobs/results/archive.ts'
import { canonicalText, extendChain, type JournalCopy } from '../../services/money/journal.ts'
import {
  unpackInlineResults, blockDigest, type ResultBlocks, type StoredBlock,
} from '../../services/jobs/results/result-blocks.ts'
import { toBoundBytes } from '../../services/jobs/message-codec.ts'
import type { JobKeyCopy } from '../../services/jobs/wrapped-keys.ts'

/** What ClickHouse holds, in memory: inserting the same twice leaves one, as a read of it would. */
export type Stores = {
  readonly blocks: ResultBlocks
  readonly archive: Archive
  readonly journal: Pick<JournalCopy, 'append' | 'read' | 'lengths' | 'heads'>
  readonly keys: Pick<JobKeyCopy, 'append'>
}

function blockStore (): ResultBlocks {
  const jobs = new Map<string, Map<string, StoredBlock>>()
  const of = (tenant: string, job: string) => {
    const known = jobs.get(`${tenant}:${job}`) ?? new Map<string, StoredBlock>()
    jobs.set(`${tenant}:${job}`, known)
    return known
  }
  const stored = (block: Completed): StoredBlock => ({
    chunk: block.chunk,
    digest: blockDigest(block),
    batch: block.batch,
    chunks: block.chunks,
    rowsSchema: block.rowsSchema,
    bound: toBoundBytes(block).toString('hex'),
    originals: block.duplicates.map(({ row }) => row),
    sealed: Buffer.from(block.sealed),
  })
  return {
    insert: async blocks => {
      for (const block of blocks) {
        of(block.tenant, block.job).set(blockDigest(block), stored(block))
      }
    },
    insertInlineResults: async (tenant, job, inlineResults) => {
      const blocks = unpackInlineResults(inlineResults)
      for (const block of blocks) of(tenant, job).set(block.digest, block)
      return blocks.map(({ digest }) => digest)
    },
    digests: async (tenant, job, wanted) =>
      new Set(wanted.filter(digest => of(tenant, job).has(digest))),
    read: async ({ tenant, job, firstChunk, lastChunk, digests }) =>
      [...of(tenant, job).values()].filter(({ chunk, digest }) =>
        chunk >= firstChunk && chunk <= lastChunk && digests.includes(digest)),
  }
}

function archiveStore (): Archive {
  const jobs = new Map<string, ArchivedJob>()
  const ofTenant = (tenant: string) =>
    [...jobs.values()].filter(({ job }) => job.tenant === tenant)
  return {
    save: async saved => {
      for (const { job, manifest } of saved) {
        jobs.set(`${job.tenant}:${job.id}`, { job: { ...job, closed: true }, manifest })
      }
    },
    find: async (tenant, job) => jobs.get(`${tenant}:${job}`),
    findAll: async (tenants, ids) => new Map(tenants.flatMap(ofTenant)
      .filter(({ job }) => ids.includes(job.id)).map(({ job }) => [job.id, job])),
    findAllWithManifest: async (tenant, ids) =>
      ofTenant(tenant).filter(({ job }) => ids.includes(job.id)),
    list: async tenant => ofTenant(tenant).map(({ job }) => job),
    createdBetween: async function * (tenant) {
      yield * ofTenant(tenant).map(({ job }) => job)
    },
    endedSince: async function * (endedMs) {
      yield * [...jobs.values()].map(({ job }) => job).filter(job => job.endedAtMs >= endedMs)
    },
    listWithManifest: async tenant => ofTenant(tenant),
  }
}

function journalStore (): Stores['journal'] {
  const tenants = new Map<string, Map<string, Journal>>()
  const of = (tenant: string) => tenants.get(tenant) ?? new Map<string, Journal>()
  const sorted = (tenant: string) => [...of(tenant).values()].toSorted((a, b) => a.seq - b.seq)
  return {
    append: async entries => entries.filter(entry => {
      const [known, text] = [of(entry.tenant), canonicalText(entry)]
      const isNew = !known.has(text)
      tenants.set(entry.tenant, known.set(text, entry))
      return isNew
    }),
    read: async tenant => ({ entries: sorted(tenant), forged: [] }),
    heads: async from => new Map([...from].map(([tenant, head]) =>
      [tenant, sorted(tenant).reduce(extendChain, head)])),
    lengths: async () => new Map([...tenants].map(([tenant, entries]) =>
      [tenant, Math.max(...[...entries.values()].map(({ seq }) => seq))])),
  }
}

/** Empty stores. */
export function createStores (): Stores {
  return {
    blocks: blockStore(),
    archive: archiveStore(),
    journal: journalStore(),
    keys: { append: async () => {} },
  }
}
