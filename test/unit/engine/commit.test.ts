import { describe, expect, it } from 'vitest'
import type { FetchedBatch } from '../../../services/kafka/bus.ts'
import { InfrastructureError } from '../../../services/platform/errors.ts'
import {
  createCommit, createCompletionCount, createOffsets,
} from '../../../services/engine/offsets.ts'
import { createLog } from '../../../services/platform/log.ts'
import { createMetrics } from '../../../services/platform/metrics.ts'
import { createSteps, type StepContext } from '../../../services/engine/steps.ts'
import { echoStage, rawMessage } from './engine-bench.ts'

const signal = new AbortController().signal
const place = {
  stage: 'normalize', group: 'g', topic: 'rows.submitted.small', partition: 0, offset: 0n,
} as const
const at: StepContext = { location: place, signal }

/** A delivery of two finished messages whose commits meet these failures first. */
function scene (failures: Error[]) {
  const lines: string[] = []
  const destination = { write: (line: string) => { lines.push(line) } }
  const log = createLog('x', { level: 'warn', destination })
  const common = { metrics: createMetrics(), log }
  const commit = createCommit({
    ...common, steps: createSteps({ ...common, sleep: async () => {} }),
  })
  const offsets = createOffsets()
  const messages = [rawMessage(0), rawMessage(1)]
  offsets.add(messages)
  for (const raw of messages) offsets.complete(raw)
  const commits: bigint[] = []
  const delivery: FetchedBatch = {
    ...place,
    messages,
    more: () => [],
    signal,
    commit: async next => {
      commits.push(next)
      const failure = failures.shift()
      if (failure !== undefined) throw failure
    },
  }
  return { commits, lines, commitNow: () => commit(delivery, offsets, at) }
}

describe('a commit', () => {
  it('is made once, up to the lowest pending message', async () => {
    const { commits, commitNow } = scene([])
    await commitNow()
    await commitNow()
    expect(commits).toEqual([2n])
  })

  it('is retried while infrastructure is unavailable', async () => {
    const { commits, commitNow } = scene([new InfrastructureError('away')])
    await commitNow()
    expect(commits).toEqual([2n, 2n])
  })

  it('that is rejected is left to the next one', async () => {
    const { commits, lines, commitNow } = scene([new Error('refused')])
    await commitNow()
    expect(commits).toEqual([2n])
    expect(JSON.parse(lines[0] ?? '{}')).toMatchObject({
      msg: 'offset commit failed, the next commit includes it',
      topic: 'rows.submitted.small',
      partition: 0,
      offset: '2',
    })
    await commitNow()
    expect(commits).toEqual([2n, 2n])
  })
})

it('completed messages and their rows are counted', async () => {
  const metrics = createMetrics()
  const count = createCompletionCount({
    stage: echoStage() as never,
    metrics,
    subscription: { group: 'g', topics: [], lane: 'small', service: 'whatsapp' },
  })
  count(rawMessage(0))
  count(rawMessage(1))
  const text = await metrics.text()
  const labels = '{stage="normalize",lane="small",service="whatsapp"}'
  expect(text).toContain(`stage_chunks_total${labels} 2`)
  expect(text).toContain(`stage_rows_total${labels} 4`)
})
