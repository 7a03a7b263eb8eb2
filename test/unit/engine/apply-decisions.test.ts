import { describe, expect, it } from 'vitest'
import { InfrastructureError } from '../../../services/platform/errors.ts'
import { createLog } from '../../../services/platform/log.ts'
import { createMetrics } from '../../../services/platform/metrics.ts'
import { createDeadLetterBatch } from '../../../services/engine/dead-letter-batch.ts'
import { createProcess } from '../../../services/engine/process.ts'
import { createApplyDecisions } from '../../../services/engine/apply-decisions.ts'
import { createSteps } from '../../../services/engine/steps.ts'
import type { ProcessDeps } from '../../../services/engine/batch.ts'
import type { Incoming } from '../../../services/engine/stage.ts'
import { echoStage, plainWire, rawMessage } from './engine-bench.ts'

/** Parts that note what is done, in order. */
function notingDeps (whenDead: () => Promise<never[]> = async () => []) {
  const noted: string[] = []
  const parts = {
    stage: echoStage({ whenDead }),
    emitter: {
      seal: async (emissions: readonly unknown[]) => { noted.push(`seal ${emissions.length}`) },
      send: async () => { noted.push('send') },
    },
    deadLetters: {
      admit: (letters: readonly unknown[]) => { noted.push(`admit ${letters.length}`) },
      send: async (letters: readonly unknown[]) => { noted.push(`letters ${letters.length}`) },
      alive: () => { noted.push('alive') },
    },
    steps: { step: (_: number, action: () => Promise<unknown>) => action(), blocked: () => 0 },
    finished: () => { noted.push('finished') },
    log: {
      error: (_: object, text: string) => { noted.push(`error ${text}`) },
      isLevelEnabled: () => false,
    },
  } as unknown as ProcessDeps
  const finish = () => { noted.push('finish') }
  const place = { stage: 'normalize' }
  const slice = { place, signal: new AbortController().signal, finish } as never
  return { noted, parts, slice }
}

const message = { raw: rawMessage(0) } as unknown as Incoming<'rows.submitted'>

describe('carrying out decisions', () => {
  it('seals and sends all emissions at once, and finishes messages last', async () => {
    const { noted, parts, slice } = notingDeps()
    const afterProduced = async () => { noted.push('after') }
    const decision = { finishes: [message], emits: [{}, {}], afterProduced } as never
    const applyDecisions = createApplyDecisions(parts)
    await applyDecisions([decision, { finishes: [message], emits: [], dead: 'x' }], slice)
    expect(noted).toEqual([
      'admit 1', 'seal 2', 'send', 'letters 1', 'after', 'finish', 'finished', 'finish', 'alive',
      'error decided to be dead letters',
    ])
  })

  it('finishes nothing when what follows fails', async () => {
    const { noted, parts, slice } = notingDeps()
    const afterProduced = async () => { throw new TypeError('a bug') }
    const decision = { finishes: [message], emits: [], afterProduced } as never
    await expect(createApplyDecisions(parts)([decision], slice)).rejects.toThrow('a bug')
    expect(noted).not.toContain('finish')
  })
})

describe('processing', () => {
  it('runs again only what failed of what follows, and waits for infrastructure', async () => {
    const ran: string[] = []
    const { parts, slice } = notingDeps()
    const decisionOf = (name: string, failures: number) => ({
      finishes: [message],
      emits: [],
      afterProduced: async () => {
        ran.push(name)
        const runs = ran.filter(one => one === name).length
        if (runs <= failures) throw new InfrastructureError('away')
      },
    })
    const metrics = createMetrics()
    const log = createLog('x', { level: 'silent' })
    const process = createProcess({
      ...parts,
      metrics,
      log,
      wire: plainWire,
      stage: echoStage({ decide: async () => [decisionOf('a', 0), decisionOf('b', 2)] }),
      steps: createSteps({ metrics, log, sleep: async () => {} }),
    } as ProcessDeps)
    await process([rawMessage(0)], slice)
    expect(ran).toEqual(['a', 'b', 'b', 'b'])
  })
})

describe('burying', () => {
  const letter = { raw: rawMessage(0), reason: 'r', cause: 'failed' } as const

  it('emits for the rows, then writes the letter, then finishes the message', async () => {
    const { noted, parts, slice } = notingDeps()
    await createDeadLetterBatch(parts, createApplyDecisions(parts))(letter, slice)
    expect(noted).toEqual([
      'admit 1', 'admit 0', 'seal 0', 'send', 'letters 0', 'letters 1', 'finish',
      'error a message is a dead letter',
    ])
  })

  it('writes the letter alone when nothing can be emitted', async () => {
    const { noted, parts, slice } = notingDeps(async () => { throw new TypeError('headers') })
    await createDeadLetterBatch(parts, createApplyDecisions(parts))(letter, slice)
    expect(noted).toEqual([
      'admit 1', 'error nothing was emitted for a dead message', 'letters 1', 'finish',
      'error a message is a dead letter',
    ])
  })
})
