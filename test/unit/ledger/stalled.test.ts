import { describe, expect, it } from 'vitest'
import { JobKeyLostError } from '../../../services/jobs/job-keys.ts'
import type { FailBlock } from '../../../services/jobs/store-types.ts'
import { createMessageCodec } from '../../../services/jobs/message-codec.ts'
import { SealError } from '../../../services/crypto/seal.ts'
import { failStalled } from '../../../services/ledger/stalled.ts'
import { storeBlock } from '../../../services/results/repositories.ts'
import { codec, createBlocksDouble, endedJob } from '../../support/results.ts'
import { bitmapOf, createManualClock } from '../../support/stage-doubles.ts'

const running = endedJob({ ended: false, status: 'verifying' }, 4)

describe('a stalled job for which nothing can be sealed', () => {
  it.each([
    ['nowhere', new JobKeyLostError('gone')], ['inconsistent', new SealError('changed')],
  ])('as its key is %s, is ended without a block', async (_, error) => {
    const blocks = createBlocksDouble()
    const fails: FailBlock[] = []
    const logged: unknown[] = []
    const messageCodec = createMessageCodec({ codec, keys: { get: async () => { throw error } } })
    const failed = endedJob({ status: 'failed' }, 4)
    const ended = await failStalled({
      store: {
        unfinishedRows: async () => bitmapOf(4, [1, 2]),
        fail: async (_tenant, _job, block) => {
          fails.push(block)
          return { kind: 'counted', ended: true, job: failed, entry: undefined }
        },
      },
      backlog: { mayContain: async () => false },
      storeBlock: emission => storeBlock({ messageCodec, codec, blocks }, emission),
      clock: createManualClock(),
      log: { error: (fields: unknown) => { logged.push(fields) } } as never,
    }, running)
    expect(ended).toEqual({ job: failed, entry: undefined })
    expect(fails).toEqual([{ digest: '', finished: bitmapOf(4, [1, 2]) }])
    expect(blocks.stored).toEqual([])
    expect(logged).toEqual([{ tenant: running.tenant, job: running.id, err: error }])
  })
})
