import { describe, expect, it, vi } from 'vitest'
import type { ErasureRequest } from '../../../services/jobs/erasures.ts'
import { requestedAtMs } from '../../../services/jobs/job.ts'
import { ResultsError } from '../../../services/jobs/results/merge.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import {
  createCachedErasure, type EraseJobsDeps, startErasing,
} from '../../../services/ledger/erase-jobs.ts'
import { createManualClock, TENANT, JOB } from '../../support/stage-messages.ts'
import { createTokenizer } from '../../../services/cache/tokens.ts'
import type { RecordCache } from '../../../services/cache/cache.ts'
import { joinJobKey } from '../../../services/jobs/job-keys.ts'
import { LostResultsError } from '../../../services/jobs/results/results.ts'
import {
  arrived, blockEmission, codec, createBlocksDouble, endedJob, keys as jobKeys, live,
  manifestEntry,
} from '../../support/clickhouse/results.ts'

const [ONE, TWO, THREE, FOUR] = ['3', '4', '5', '6']
  .map(last => `job_01jd3v8zj7m5n2k4q6r8s0t1w${last}`) as [string, string, string, string]
const NOW_MS = 1_800_000_000_000
const request = (job: string, more: Partial<ErasureRequest> = {}): ErasureRequest =>
  ({ tenant: 'org_1.live', job, cache: false, ...more })

type State = {
  readonly requested?: readonly ErasureRequest[]
  readonly compacting?: readonly ErasureRequest[]
  readonly isDue?: boolean
  /** Jobs whose key the topic still has. */
  readonly inTopic?: readonly string[]
  readonly eraseCached?: EraseJobsDeps['eraseCached']
}

function setUp (state: State) {
  const { requested = [], compacting = [], isDue = true, inTopic = [] } = state
  const steps: string[] = []
  const note = (step: string) => async ({ tenant, jobs }: {
    readonly tenant: string, readonly jobs: readonly string[]
  }) => { steps.push(`${step} ${tenant} ${jobs.join()}`) }
  const deps: EraseJobsDeps = {
    erasures: {
      requested: async () => [...requested],
      backlog: async () => ({ requested: 0, compacting: 0, oldestAtMs: undefined }),
      compacting: async () => ({ erasures: [...compacting], isDue }),
      postpone: async (requests, atMs) => {
        if (requests.length === 0) return
        steps.push(`postpone ${requests.map(({ job }) => job).join()} by ${atMs - NOW_MS}`)
      },
      await: async (requests, nextMs) => {
        if (requests.length === 0) return
        steps.push(`await ${requests.map(({ job }) => job).join()} for ${nextMs - NOW_MS}`)
      },
      complete: async requests => {
        if (requests.length > 0) steps.push(`complete ${requests.map(({ job }) => job).join()}`)
      },
    },
    keys: {
      destroy: note('destroy'),
      rewriteAof: async () => { steps.push('rewrite'); return 'rewritten' },
      copiesInTopic: async (jobs, sinceMs) => {
        steps.push(`search since ${sinceMs}`)
        return new Map(jobs.filter(job => inTopic.includes(job)).map(job => [job, 1]))
      },
      writeTombstones: note('tombstones'),
      removeCopies: note('remove'),
    },
    eraseCached: state.eraseCached ?? (async ({ job }) => { steps.push(`cache ${job}`) }),
    clock: createManualClock(NOW_MS),
    log: { info: () => {}, warn: () => {}, error: () => {} },
    metrics: { watchAll: () => {} },
    isLeader: () => true,
    everyMs: 1_000,
  }
  return { deps, steps }
}

describe('a round of erasures', () => {
  it('destroys the keys of all requests with one rewrite of the file of Redis', async () => {
    const { deps, steps } = setUp({
      requested: [request(ONE), request(TWO, { tenant: 'org_2.live' }), request(THREE)],
    })
    await startErasing(deps).stop()
    expect(steps).toEqual([
      `destroy org_1.live ${ONE},${THREE}`, `destroy org_2.live ${TWO}`, 'rewrite',
      `await ${ONE},${TWO},${THREE} for 1000`,
    ])
  })

  it('erases cached records before the key that finds them', async () => {
    const { deps, steps } = setUp({ requested: [request(ONE, { cache: true })] })
    await startErasing(deps).stop()
    expect(steps.slice(0, 2)).toEqual([`cache ${ONE}`, `destroy org_1.live ${ONE}`])
  })

  it('keeps the key of a job until its cached records are erased', async () => {
    const both = [request(ONE), request(ONE, { cache: true })]
    const down = async () => { throw new InfrastructureError('down') }
    const failing = setUp({ requested: both, eraseCached: down })
    await startErasing(failing.deps).stop()
    expect(failing.steps).toEqual([`postpone ${ONE} by 1`])
    const { deps, steps } = setUp({ requested: both })
    await startErasing(deps).stop()
    expect(steps.slice(0, 2)).toEqual([`cache ${ONE}`, `destroy org_1.live ${ONE}`])
  })

  it('does each of its parts although another one fails', async () => {
    const { deps, steps } = setUp({
      requested: [request(ONE), request(TWO, { cache: true })], compacting: [request(THREE)],
    })
    const fails = async () => { throw new InfrastructureError('down') }
    await startErasing({ ...deps, keys: { ...deps.keys, rewriteAof: fails } }).stop()
    expect(steps).toContain(`remove org_1.live ${THREE}`)
    expect(steps).toContain(`cache ${TWO}`)
  })

  it('does all others first and goes on while the cache is unavailable', async () => {
    let nowMs = 0
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
    const asked: string[] = []
    const { deps, steps } = setUp({
      requested: [ONE, TWO, THREE].map(job => request(job, { cache: job !== THREE })),
      compacting: [request(FOUR)],
      eraseCached: async ({ job }) => {
        asked.push(job)
        nowMs += 1_000
        throw new InfrastructureError('down')
      },
    })
    await startErasing(deps).stop()
    vi.restoreAllMocks()
    expect(steps).toEqual([
      `destroy org_1.live ${THREE}`, 'rewrite', `await ${THREE} for 1000`,
      `search since ${requestedAtMs(FOUR)}`, `remove org_1.live ${FOUR}`, `complete ${FOUR}`,
      // The one that failed comes after the one for which no time was left.
      `postpone ${TWO} by 0`, `postpone ${ONE} by 1`,
    ])
    expect(asked).toEqual([ONE])
  })

  it('destroys the key of unreadable results all the same', async () => {
    const { deps, steps } = setUp({
      requested: [request(ONE, { cache: true })],
      eraseCached: async () => { throw new ResultsError('damaged') },
    })
    await startErasing(deps).stop()
    expect(steps[0]).toBe(`destroy org_1.live ${ONE}`)
  })

  it('removes the copies in ClickHouse of keys that the brokers have deleted', async () => {
    const { deps, steps } = setUp({ compacting: [request(TWO), request(ONE)], inTopic: [TWO] })
    await startErasing(deps).stop()
    expect(steps).toEqual([
      `search since ${requestedAtMs(ONE)}`, `remove org_1.live ${ONE}`, `complete ${ONE}`,
      `tombstones org_1.live ${TWO}`, `await ${TWO} for 5000`,
    ])
  })
})

it('a ledger that does not lead erases nothing', async () => {
  const { deps, steps } = setUp({ requested: [request(ONE)] })
  await startErasing({ ...deps, isLeader: () => false }).stop()
  expect(steps).toEqual([])
})

const secrets = new Map(['1', '2'].map((version, at) => [version, Buffer.alloc(32, at)] as const))
const tokenize = createTokenizer(secrets)
const tokensOf = (...contacts: readonly string[]) =>
  tokenize({ tenant: TENANT, service: 'phone-validation', version: '2' }, contacts)

/** A job of two numbers, of which the second one occurs twice, and an invalid row. */
async function cachedJob (wrapped: { readonly copied?: Buffer, readonly inTopic?: Buffer }) {
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
  const erased: Parameters<RecordCache['erase']>[] = []
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
const erasedJob = { tenant: TENANT, job: JOB }

describe('erasing the cached records of a job', () => {
  it('deletes those of each contact once, under every version of the secret', async () => {
    const { erase, erased, numbers } = await cachedJob({ copied: stored('copied') })
    await erase(erasedJob)
    const { tokens, rotatedTokens: rotated } = tokensOf(...numbers)
    expect(rotated?.versions).toEqual(['1'])
    expect(erased).toEqual([[
      { tenant: TENANT, service: 'phone-validation', version: '2', rotated }, tokens,
    ]])
  })

  it('reads a key that is not copied yet from its topic', async () => {
    const { erase, erased, unwrapped } = await cachedJob({ inTopic: stored('topic') })
    await erase(erasedJob)
    expect([erased.length, String(unwrapped[0])]).toEqual([1, 'topic'])
  })

  it('fails without a key, and does nothing for a job that is not stored', async () => {
    const { erase, erased } = await cachedJob({})
    await expect(erase(erasedJob)).rejects.toThrow(LostResultsError)
    await erase({ ...erasedJob, job: 'job_2' })
    expect(erased).toEqual([])
  })
})
