import { describe, expect, it } from 'vitest'
import { createPendingJobs } from '../../../services/lookup/pending-jobs.ts'
import { chunksOf, JOB, QUOTED_AT_MS, TENANT } from '../../support/stage-doubles.ts'

const owner = { tenant: TENANT, job: JOB }
const LATE_MS = QUOTED_AT_MS + 25_001

/** A job of three chunks, one row each. */
function scene () {
  const held = createPendingJobs()
  const chunks = chunksOf(['+12127365000', '+12127365001', '+12127365002'], { chunkRows: 1 })
  const [first, second, third] = chunks as [typeof chunks[0], typeof chunks[0], typeof chunks[0]]
  const suspects = (nowMs = QUOTED_AT_MS) => held.suspects(first.raw, nowMs)
  return { held, first, second, third, suspects }
}

describe('held jobs', () => {
  it('are suspect once they are late, in their own partition', () => {
    const { held, first, second, suspects } = scene()
    held.add(second)
    held.add(first)
    expect(suspects(LATE_MS - 1)).toEqual([])
    expect(suspects(LATE_MS)).toEqual([{
      message: first,
      unit: { messages: [first, second], members: [second, first] },
      isAccountedFor: false,
      quietLooks: 0,
    }])
    expect(held.suspects({ topic: first.raw.topic, partition: 9 }, LATE_MS)).toEqual([])
  })

  it('are accounted for when each chunk that is not held is dead', () => {
    const { held, first, third, suspects } = scene()
    held.lose(owner, 1)
    expect(suspects()).toEqual([])
    held.add(first)
    expect(suspects().map(({ isAccountedFor }) => isAccountedFor)).toEqual([false])
    held.add(third)
    expect(suspects().map(({ isAccountedFor }) => isAccountedFor)).toEqual([true])
  })

  it('count looks at which their partition had nothing new, afresh with each chunk', () => {
    const { held, first, second, suspects } = scene()
    const looks = () => suspects(LATE_MS).map(({ quietLooks }) => quietLooks)
    const other = { ...first, value: { ...first.value, job: 'job_other' } }
    held.add(first)
    const counted: (readonly number[])[] = []
    for (const coming of [undefined, undefined, undefined, other, undefined, second, undefined]) {
      if (coming !== undefined) held.add(coming)
      counted.push(looks())
      held.looked(first.raw)
      held.looked({ topic: first.raw.topic, partition: 9 })
    }
    expect(counted).toEqual([[0], [1], [2], [2, 0], [3, 1], [0, 1], [1, 2]])
    // A look that did not go through is none.
    expect([looks(), looks()]).toEqual([[2, 3], [2, 3]])
  })

  it('keep the first message of a chunk as its part, and all as members', () => {
    const { held, first, suspects } = scene()
    const twin = { ...first, raw: { ...first.raw, offset: 9n } }
    held.add(first)
    held.add(twin)
    expect(suspects(LATE_MS)[0]?.unit).toEqual({ messages: [first], members: [first, twin] })
  })

  it('are complete with their last chunk, and gone when they are dropped or forgotten', () => {
    const { held, first, second, third, suspects } = scene()
    expect([held.add(first), held.add(second)]).toEqual([undefined, undefined])
    expect(held.add(third)?.messages).toEqual([first, second, third])
    held.drop(third)
    expect(suspects(LATE_MS)).toEqual([])
    held.lose(owner, 1)
    held.add(first)
    held.forget()
    held.add(first)
    expect(suspects()).toEqual([])
  })
})
