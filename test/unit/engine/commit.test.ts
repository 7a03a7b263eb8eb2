import { describe, expect, it } from 'vitest'
import type { FetchedBatch } from '../../../services/kafka/bus.ts'
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

/** A delivery of two finished messages. */
function scene () {
  const commit = createCommit({
    steps: createSteps({ metrics: createMetrics(), log: createLog('x') }),
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
    commit: next => { commits.push(next) },
    redeliver: () => {},
  }
  return { commits, commitNow: () => commit(delivery, offsets, at) }
}

describe('a commit', () => {
  it('is made once, up to the lowest pending message', async () => {
    const { commits, commitNow } = scene()
    await commitNow()
    await commitNow()
    expect(commits).toEqual([2n])
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
