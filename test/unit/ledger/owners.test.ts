import { describe, expect, it } from 'vitest'
import { Owners, type Owned } from '../../../services/ledger/owners.ts'

const ENTRY: Owned = { id: 'entry', stage: 'lookup', lane: 'small' }
const JOB: Owned = { id: 'job', stage: 'settle', lane: 'small' }

/** A topic of two partitions, each with a committed offset and an end. */
function setUp () {
  const partitions = [{ offset: 5, end: 5 }, { offset: 3, end: 4 }]
  const asked: string[] = []
  let nowMs = 0
  const owners = new Owners({
    readOffsets: async groups => {
      asked.push(...groups)
      return groups.flatMap(group => partitions.map(({ offset, end }, partition) =>
        ({ stage: 'settle' as const, group, topic: group, partition, offset, lag: end - offset })))
    },
    now: () => nowMs,
  })
  return {
    asked,
    find: async (...owned: readonly Owned[]) => [...await owners.findOrphans(owned)],
    move: (partition: number, change: { offset?: number, end?: number }) => {
      Object.assign(partitions[partition]!, change)
    },
    pass: (ms: number) => { nowMs += ms },
  }
}

describe('an unfinished entry or job', () => {
  it('is an orphan once its stage has committed all that there was', async () => {
    const { find, move, asked } = setUp()
    move(0, { end: 6 })
    expect(await find(JOB)).toEqual([])
    move(0, { offset: 6 })
    expect(await find(JOB)).toEqual([])
    move(1, { offset: 4, end: 9 })
    expect(await find(JOB)).toEqual(['job'])
    expect(new Set(asked)).toEqual(new Set(['settle.small']))
  })

  it('is none at first sight, even of an idle stage', async () => {
    const { find, move } = setUp()
    move(1, { offset: 4 })
    expect(await find(ENTRY)).toEqual([])
    expect(await find(ENTRY, JOB)).toEqual(['entry'])
  })

  it('is none of a slow stage that makes progress, however long it takes', async () => {
    const { find, move, pass } = setUp()
    move(1, { end: 100 })
    expect(await find(JOB)).toEqual([])
    for (let offset = 4; offset < 100; offset++) {
      pass(299_000)
      move(1, { offset })
      expect(await find(JOB)).toEqual([])
    }
  })

  it('is an orphan of a stage that is behind and commits nothing for five minutes', async () => {
    const { find, pass } = setUp()
    await find(JOB)
    pass(299_999)
    expect(await find(JOB)).toEqual([])
    pass(1)
    expect(await find(JOB)).toEqual(['job'])
  })

  it('is none of a stage whose topic was empty for long', async () => {
    const { find, move, pass } = setUp()
    move(1, { offset: 4 })
    await find(ENTRY)
    pass(600_000)
    await find(ENTRY)
    move(1, { end: 5 })
    await find(ENTRY, JOB)
    expect(await find(JOB)).toEqual([])
  })

  it('is seen for the first time again after a run without it', async () => {
    const { find, move } = setUp()
    move(1, { offset: 4 })
    await find(JOB)
    await find()
    expect(await find(JOB)).toEqual([])
  })
})
