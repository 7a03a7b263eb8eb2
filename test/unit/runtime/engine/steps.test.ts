import { describe, expect, it } from 'vitest'
import { FatalError, InfrastructureError } from '../../../../services/runtime/platform/errors.ts'
import { createLog } from '../../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'
import { type Effects, Steps } from '../../../../services/runtime/engine/steps.ts'

const place = {
  stage: 'verify', group: 'verify', topic: 'rows.to-verify', partition: 1, offset: 2n,
} as const

const stepsOf = (effects?: Effects) => {
  const metrics = createMetrics()
  const log = createLog('x', { level: 'silent' })
  return { metrics, steps: new Steps({ metrics, log, effects, sleep: async () => {} }) }
}

describe('a step of the engine', () => {
  const at = { location: place, signal: new AbortController().signal }

  it('waits for infrastructure and reports it', async () => {
    const { steps, metrics } = stepsOf()
    const blocked: number[] = []
    const action = async () => {
      blocked.push(steps.stalled())
      if (blocked.length < 3) throw new InfrastructureError('away')
      return 'done'
    }
    expect(await steps.run('produce', action, at)).toBe('done')
    expect([...blocked, steps.stalled()]).toEqual([0, 1, 1, 0])
    expect(await metrics.text())
      .toContain('stage_step_seconds_count{stage="verify",step="produce"} 1')
  })

  it('logs the job if all messages are of one', async () => {
    const lines: string[] = []
    const log = createLog('x', { destination: { write: line => lines.push(line) } })
    const steps = new Steps({ metrics: createMetrics(), log, sleep: async () => {} })
    const failing = (jobs: readonly string[]) => {
      let calls = 0
      const messages = jobs.map(job => ({ headers: { tenant: 't', job } })) as never
      return steps.run('produce', async () => {
        if (calls++ === 0) throw new InfrastructureError('away')
      }, { ...at, messages })
    }
    await failing(['a', 'a'])
    await failing(['a', 'b'])
    expect(lines.map(line => JSON.parse(line) as object)).toEqual([
      expect.objectContaining({ job: 'a', tenant: 't', step: 'produce' }),
      expect.objectContaining({ jobs: 2, step: 'produce' }),
    ])
  })

  it('throws any other failure at once', async () => {
    const { steps } = stepsOf()
    let calls = 0
    const action = async () => {
      calls++
      throw new TypeError('a bug')
    }
    await expect(steps.run('decide', action, at)).rejects.toThrow('a bug')
    expect([calls, steps.stalled()]).toEqual([1, 0])
  })

  it('does not start after the partition is revoked', async () => {
    const signal = AbortSignal.abort(new Error('lost'))
    const action = async () => expect.unreachable()
    await expect(stepsOf().steps.run('produce', action, { location: place, signal }))
      .rejects.toThrow('lost')
  })

  it('runs after the hook, whose failure is a crash', async () => {
    const seen: unknown[] = []
    const { steps } = stepsOf({
      before: async (step, where) => {
        seen.push(step, where)
        throw new InfrastructureError('not to be retried')
      },
    })
    await expect(steps.run('seal', async () => expect.unreachable(), at))
      .rejects.toThrow(FatalError)
    expect(seen).toEqual(['seal', place])
  })
})
