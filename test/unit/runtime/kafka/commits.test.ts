import { describe, expect, it } from 'vitest'
import { createCommits } from '../../../../services/runtime/kafka/commits.ts'

const place = (partition: number) => ({ topic: 'rows', partition })

/** Commits whose requests meet these failures first. */
function setUp (failures: readonly unknown[] = [], intervalMs = 0) {
  const generation = new AbortController()
  const requests: string[] = []
  const failed: unknown[] = []
  const left = [...failures]
  const commits = createCommits({
    generation, onFailed: error => { failed.push(error) }, intervalMs,
  })
  const add = (partition: number, offset: bigint) =>
    commits.add(place(partition), offset, async ({ topics }) => {
      requests.push(topics.flatMap(({ topic, partitions }) =>
        partitions.map(one => `${topic}/${one.partition}:${one.offset}`)).join(' '))
      const failure = left.shift()
      if (failure !== undefined) throw failure
    })
  return { commits, generation, requests, failed, add }
}

const lost = Object.assign(new Error('connection'), { retriable: true })
const illegal = Object.assign(new Error('gone'), { type: 'ILLEGAL_GENERATION' })

describe('commits of a generation', () => {
  it('share a request, with the newest offset of each partition', async () => {
    const { commits, requests, add } = setUp()
    add(0, 1n)
    add(1, 5n)
    add(0, 2n)
    await commits.ended()
    expect(requests).toEqual(['rows/0:2 rows/1:5'])
    add(1, 6n)
    await commits.ended()
    expect(requests).toEqual(['rows/0:2 rows/1:5', 'rows/1:6'])
  })

  it('are repeated after a failure, unless a newer offset has replaced them', async () => {
    const { commits, requests, failed, add } = setUp([lost, new Error('refused')])
    add(0, 1n)
    add(1, 1n)
    await commits.ended()
    expect(requests).toEqual(Array(3).fill('rows/0:1 rows/1:1'))
    expect(failed).toEqual([lost, new Error('refused')])
  })

  it('are sent at once when the generation ends, and none is added afterwards', async () => {
    const { commits, generation, requests, add } = setUp([], 3_600_000)
    add(0, 1n)
    generation.abort(new Error('the group rebalances'))
    add(0, 2n)
    await commits.ended()
    expect(requests).toEqual(['rows/0:1'])
  })

  it('are not repeated after the end of the generation, which a refusal shows', async () => {
    const { commits, generation, requests, failed, add } = setUp([illegal])
    add(0, 1n)
    await commits.ended()
    expect([requests.length, failed, generation.signal.aborted]).toEqual([1, [], true])
  })
})
