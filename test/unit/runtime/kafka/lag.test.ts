import { describe, expect, it } from 'vitest'
import { lagsOf, type OffsetsAdmin } from '../../../../services/runtime/kafka/admin.ts'

const bound = (partition: number, low: string, high: string) =>
  ({ partition, offset: high, low, high })

/** Brokers on which only the topic of the journal has messages. */
function offsets (committed: Readonly<Record<number, string>>): OffsetsAdmin {
  return {
    fetchTopicOffsets: async topic => topic === 'wallet.journal'
      ? [bound(0, '5', '20'), bound(1, '5', '20')]
      : [bound(0, '0', '0')],
    fetchOffsets: async ({ topics = [] }) => (topics as string[]).map(topic => ({
      topic,
      partitions: [0, 1].map(partition =>
        ({ partition, offset: committed[partition] ?? '-1', metadata: null })),
    })),
  }
}

const journal = async (committed: Readonly<Record<number, string>>) =>
  (await lagsOf(offsets(committed))).filter(({ topic }) => topic === 'wallet.journal')

describe('the consumer lag', () => {
  it('is the log end offset minus the committed offset, by partition', async () => {
    const own = { stage: 'ledger', group: 'ledger', topic: 'wallet.journal' }
    expect(await journal({ 0: '17', 1: '20' })).toEqual([
      { ...own, partition: 0, offset: 17, lag: 3 },
      { ...own, partition: 1, offset: 20, lag: 0 },
    ])
  })

  it('starts at the log start offset', async () => {
    expect((await journal({ 1: '2' })).map(({ lag }) => lag)).toEqual([15, 15])
  })
})
