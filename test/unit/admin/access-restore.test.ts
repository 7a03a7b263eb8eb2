import { expect, it } from 'vitest'
import type { NumberedEntry } from '../../../services/accounts/access-log/entry.ts'
import { restoreAccessLog } from '../../../services/admin/journal-restore.ts'
import { accessEntry } from '../../support/access.ts'

/** A copy with these numbers, and a topic that had some messages and loses or doubles some. */
function createRestore (seqs: readonly number[], { before = 0, doubled = 0 } = {}) {
  const sent: NumberedEntry[] = []
  const restore = () => restoreAccessLog({
    admin: {
      fetchTopicOffsets: async () =>
        [{ partition: 0, offset: '', low: '0', high: String(before + sent.length) }],
    },
    accessCopy: {
      pages: async function * () {
        const entries = seqs.map(seq => accessEntry({ seq }))
        yield { entries: entries.slice(0, 2), forged: [] }
        yield { entries: entries.slice(2), forged: [7] }
      },
    },
    sendAccess: async entries => { sent.push(...entries, ...entries.slice(0, doubled)) },
  })
  return { sent, restore }
}

it('the access log is written in the order of its numbers', async () => {
  const { sent, restore } = createRestore([1, 2, 3, 4])
  expect(await restore()).toBe(4)
  expect(sent.map(({ seq }) => seq)).toEqual([1, 2, 3, 4])
})

it('a topic of the access log that is not new stays as it is', async () => {
  const { sent, restore } = createRestore([1, 2], { before: 3 })
  expect([await restore(), sent]).toEqual([0, []])
})

it.each([
  [[1, 3], 'no entry 2 behind entry 1'], [[2], 'no entry 1 behind entry 0'],
  [[1, 1], 'two entries with the number 1'],
])('the access log is not written from a copy with the numbers %j', async (seqs, problem) => {
  const { sent, restore } = createRestore(seqs)
  await expect(restore()).rejects.toThrow(problem)
  expect(sent).toEqual([])
})

it('a message that was written twice is noticed', async () => {
  const { restore } = createRestore([1, 2, 3], { doubled: 1 })
  await expect(restore()).rejects.toThrow('has 5 messages, but the copy has 3 entries')
})
