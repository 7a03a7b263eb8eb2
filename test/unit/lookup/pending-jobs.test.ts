import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PendingJobs } from '../../../services/lookup/pending-jobs.ts'
import { chunksOf, JOB, QUOTED_AT_MS, TENANT } from '../../support/stage-doubles.ts'

const owner = { tenant: TENANT, job: JOB }
const LATE_MS = QUOTED_AT_MS + 25_001

/** A job of three chunks, one row each. */
function scene () {
  const held = new PendingJobs()
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

  it('stay complete until they are dropped, and so does what a retry finds', () => {
    const { held, first, second, third } = scene()
    for (const chunk of [first, second, third]) held.add(chunk)
    const again = held.add({ ...second, raw: { ...second.raw, offset: 9n } })
    expect(again?.messages).toEqual([first, second, third])
    expect(again?.members).toHaveLength(4)
  })

  it('reject a chunk that their job does not have', () => {
    const { held, first } = scene()
    const numbered = (chunk: number) => ({ ...first, value: { ...first.value, chunk } })
    expect(() => held.add(numbered(3))).toThrow(RangeError)
    expect(() => held.add(numbered(-1))).toThrow(RangeError)
  })
})

/** Chunks of several jobs: each at least once, some twice, all shuffled. */
const streams = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 4 })
  .chain(sizes => {
    const once = sizes.flatMap((size, number) =>
      chunksOf(Array.from({ length: size }, () => ''), { chunkRows: 1, job: `job_${number}` }))
    return fc.subarray(once).chain(twice => {
      const all = [...once, ...twice.map(message => ({ ...message }))]
      return fc.shuffledSubarray(all, { minLength: all.length })
    })
  })

it('a job is complete when its last chunk arrives, in any order, with all its messages', () => {
  fc.assert(fc.property(streams, stream => {
    const held = new PendingJobs()
    const complete = new Map<string, readonly number[]>()
    for (const [at, message] of stream.entries()) {
      const { job, chunks } = message.value
      const before = stream.slice(0, at + 1).filter(({ value }) => value.job === job)
      const unit = held.add(message)
      const isLast = new Set(before.map(({ value }) => value.chunk)).size === chunks
      expect(unit?.members).toEqual(isLast ? before : undefined)
      if (unit !== undefined) complete.set(job, unit.messages.map(({ value }) => value.chunk))
    }
    for (const [job, numbers] of complete) {
      const { chunks } = stream.find(({ value }) => value.job === job)!.value
      expect(numbers).toEqual(Array.from({ length: chunks }, (_, number) => number))
    }
    expect(complete.size).toBe(new Set(stream.map(({ value }) => value.job)).size)
  }))
})
