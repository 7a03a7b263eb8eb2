import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import { copyDeps } from '../../../services/ledger/copy-deps.ts'
import { accessEntry } from '../../support/access.ts'
import { recordMacOf } from '../../support/signed.ts'
import { acceptedJob, entryOf, TENANT } from '../../support/stage-doubles.ts'
import { createClickhouseDouble } from '../../support/stored.ts'

describe('the copy to ClickHouse', () => {
  it('has one insert for the partitions of a topic that are due together', async () => {
    const { clickhouse, inserted, tokens } = createClickhouseDouble()
    const appended: number[] = []
    const heads: (readonly [seq: number, rows: number])[] = []
    const settings = { LEDGER_BATCH_MESSAGES: 500, COPY_AFTER_MS: 2_000 }
    const { journal, keys, access } = copyDeps(settings, {
      journal: { append: async (entries: readonly Journal[]) => { appended.push(entries.length) } },
      clickhouse,
      recordMac: recordMacOf(),
      state: {
        zadd: async (...[, , seq]: [string, string, number]) =>
          heads.push([seq, inserted.length]),
      } as never,
      clock: { now: () => 0 },
    })
    const entry = entryOf(TENANT, acceptedJob())
    await Promise.all([journal.append([entry]), journal.append([entry, entry])])
    const key = (job: string) => ({ tenant: TENANT, job, wrapped: Buffer.of(1), createdMs: 0 })
    await Promise.all([keys.append([key('job_1')]), keys.append([key('job_2')])])
    expect(appended).toEqual([3])
    expect([tokens.length, inserted.map(({ job }) => job)]).toEqual([1, ['job_1', 'job_2']])
    await access.append([accessEntry({ seq: 8 }), accessEntry({ seq: 9 }), accessEntry({ seq: 7 })])
    expect(inserted.slice(2)).toMatchObject([{ seq: 8 }, { seq: 9 }, { seq: 7 }])
    // Only then their highest number.
    expect(heads).toEqual([[9, 5]])
  })
})
