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
  const expired = (nowMs = QUOTED_AT_MS) => held.expired(first.raw, nowMs)
  return { held, first, second, third, expired }
}

describe('pending jobs', () => {
  it('are expired after acceptBy, in their own partition', () => {
    const { held, first, second, expired } = scene()
    held.add(second)
    held.add(first)
    expect(expired(LATE_MS - 1)).toEqual([])
    expect(expired(LATE_MS)).toEqual([{
      message: first,
      unit: { messages: [first, second], members: [second, first] },
      hasAllChunks: false,
      idlePolls: 0,
    }])
    expect(held.expired({ topic: first.raw.topic, partition: 9 }, LATE_MS)).toEqual([])
  })

  it('have all chunks if the missing ones are dead letters', () => {
    const { held, first, third, expired } = scene()
    held.markDead(owner, 1)
    expect(expired()).toEqual([])
    held.add(first)
    expect(expired().map(({ hasAllChunks }) => hasAllChunks)).toEqual([false])
    held.add(third)
    expect(expired().map(({ hasAllChunks }) => hasAllChunks)).toEqual([true])
  })

  it('count idle polls of their partition since their last chunk', () => {
    const { held, first, second, expired } = scene()
    const polls = () => expired(LATE_MS).map(({ idlePolls }) => idlePolls)
    const other = { ...first, value: { ...first.value, job: 'job_other' } }
    held.add(first)
    const counted: (readonly number[])[] = []
    for (const coming of [undefined, undefined, undefined, other, undefined, second, undefined]) {
      if (coming !== undefined) held.add(coming)
      counted.push(polls())
      held.polled(first.raw)
      held.polled({ topic: first.raw.topic, partition: 9 })
    }
    expect(counted).toEqual([[0], [1], [2], [2, 0], [3, 1], [0, 1], [1, 2]])
    // A failed poll does not count.
    expect([polls(), polls()]).toEqual([[2, 3], [2, 3]])
  })

  it('keep the first message of a chunk, and all as members', () => {
    const { held, first, expired } = scene()
    const twin = { ...first, raw: { ...first.raw, offset: 9n } }
    held.add(first)
    held.add(twin)
    expect(expired(LATE_MS)[0]?.unit).toEqual({ messages: [first], members: [first, twin] })
  })

  it('are complete with their last chunk, and gone after drop or forget', () => {
    const { held, first, second, third, expired } = scene()
    expect([held.add(first), held.add(second)]).toEqual([undefined, undefined])
    expect(held.add(third)?.messages).toEqual([first, second, third])
    held.drop(third)
    expect(expired(LATE_MS)).toEqual([])
    held.markDead(owner, 1)
    held.add(first)
    held.forget()
    held.add(first)
    expect(expired()).toEqual([])
  })
})
