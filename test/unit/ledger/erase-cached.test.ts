import { describe, expect, it } from 'vitest'
import { createTokenizer } from '../../../services/cache/tokenizer.ts'
import type { CacheScope } from '../../../services/cache/cache.ts'
import { createCachedErasure } from '../../../services/ledger/erase-cached.ts'
import { joinJobKey } from '../../../services/jobs/job-key-parts.ts'
import { LostResultsError } from '../../../services/results/read-chunks.ts'
import {
  arrived, blockEmission, codec, createBlocksDouble, endedJob, keys as jobKeys, live, manifestEntry,
} from '../../support/results.ts'
import { JOB, TENANT } from '../../support/stage-doubles.ts'

const secrets = new Map(['1', '2'].map((version, at) => [version, Buffer.alloc(32, at)] as const))
const tokenize = createTokenizer(secrets)
const tokensOf = (...contacts: readonly string[]) =>
  tokenize({ tenant: TENANT, service: 'phone-validation', version: '2' }, contacts)

/** A job of two numbers, of which the second one occurs twice, and an invalid row. */
async function setUp (wrapped: { readonly copied?: Buffer, readonly inTopic?: Buffer }) {
  const blocks = createBlocksDouble()
  const numbers = ['+12127365000', '+442079460958']
  const place = { chunk: 0, chunks: 1, firstRow: 0, rows: 4, totalRows: 4 }
  const outcomes = numbers.map(e164 => ({ ...live('x'), contact: { e164 }, copies: 0 }))
  const { value } = await arrived(blockEmission(place, [
    [0, outcomes[0]!], [1, { ...outcomes[1]!, copies: 1 }],
    [2, { source: 'duplicate', duplicateOf: 2 }], [3, live('')],
  ], { inputs: ['a', 'b', 'b', 'c'] }))
  await blocks.insert([value])
  const job = endedJob({ chunks: 1 }, 4)
  const erased: [CacheScope, Buffer][] = []
  const unwrapped: Buffer[] = []
  const erase = createCachedErasure({
    blocks,
    codec,
    archive: {
      find: async (_tenant, id) => id === JOB
        ? { job, manifest: [manifestEntry(value, [0, 1, 2, 3])] }
        : undefined,
    },
    keyCopy: { find: async () => wrapped.copied },
    keys: { findInTopic: async () => wrapped.inTopic },
    organizationKeys: {
      unwrap: async (_orgId, bytes) => { unwrapped.push(bytes); return dataKey },
    },
    tokenize,
    cache: { erase: async (scope, tokens) => { erased.push([scope, tokens]) } },
  })
  return { erase, erased, unwrapped, numbers }
}

const dataKey = await jobKeys.get() ?? Buffer.alloc(0)
const stored = (text: string) =>
  joinJobKey({ results: Buffer.from(text), webhooks: Buffer.from('header') })
const request = { tenant: TENANT, job: JOB }

describe('erasing the cached records of a job', () => {
  it('deletes those of each contact once, under every version of the secret', async () => {
    const { erase, erased, numbers } = await setUp({ copied: stored('copied') })
    await erase(request)
    const { tokens, rotatedTokens: rotated } = tokensOf(...numbers)
    expect(rotated?.versions).toEqual(['1'])
    expect(erased).toEqual([[
      { tenant: TENANT, service: 'phone-validation', version: '2', rotated }, tokens,
    ]])
  })

  it('reads a key that is not copied yet from its topic', async () => {
    const { erase, erased, unwrapped } = await setUp({ inTopic: stored('topic') })
    await erase(request)
    expect([erased.length, String(unwrapped[0])]).toEqual([1, 'topic'])
  })

  it('fails without a key, and does nothing for a job that is not stored', async () => {
    const { erase, erased } = await setUp({})
    await expect(erase(request)).rejects.toThrow(LostResultsError)
    await erase({ ...request, job: 'job_2' })
    expect(erased).toEqual([])
  })
})
