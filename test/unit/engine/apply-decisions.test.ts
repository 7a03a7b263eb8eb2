import { describe, expect, it } from 'vitest'
import { replayOutcomes } from '../../../services/engine/dead-letters.ts'
import { InfrastructureError } from '../../../services/platform/errors.ts'
import { createLog } from '../../../services/platform/log.ts'
import { createMetrics } from '../../../services/platform/metrics.ts'
import { createProcess } from '../../../services/engine/process.ts'
import {
  createApplyDecisions, createDeadLetterBatch,
} from '../../../services/engine/apply-decisions.ts'
import { createSteps } from '../../../services/engine/steps.ts'
import type { ProcessDeps } from '../../../services/engine/batch.ts'
import type { Incoming } from '../../../services/engine/stage.ts'
import { echoStage, plainCodec, rawMessage } from './engine-bench.ts'

/** Dependencies that record what is done, in order. */
function notingDeps (resolveDead: () => Promise<never[]> = async () => []) {
  const noted: string[] = []
  const deps = {
    stage: echoStage({ resolveDead }),
    emitter: {
      seal: async (emissions: readonly unknown[]) => { noted.push(`seal ${emissions.length}`) },
      send: async () => { noted.push('send') },
    },
    deadLetters: {
      checkLimit: (letters: readonly unknown[]) => { noted.push(`checkLimit ${letters.length}`) },
      send: async (letters: readonly unknown[]) => { noted.push(`letters ${letters.length}`) },
      report: async (outcomes: readonly { letter: string, action: string, reason: string }[]) => {
        noted.push(...outcomes.map(({ letter, action, reason }) =>
          `report ${letter} ${action} ${reason}`))
      },
      reset: () => { noted.push('reset') },
    },
    steps: { step: (_: number, action: () => Promise<unknown>) => action(), stalled: () => 0 },
    onCompleted: () => { noted.push('completed') },
    log: {
      error: (_: object, text: string) => { noted.push(`error ${text}`) },
      isLevelEnabled: () => false,
    },
  } as unknown as ProcessDeps
  const complete = () => { noted.push('complete') }
  const location = { stage: 'normalize' }
  const batch = { location, signal: new AbortController().signal, complete } as never
  return { noted, deps, batch }
}

const message = { raw: rawMessage(0) } as unknown as Incoming<'rows.submitted'>

describe('applyDecisions', () => {
  it('seals and sends all emissions together, and completes messages last', async () => {
    const { noted, deps, batch } = notingDeps()
    const afterProduced = async () => { noted.push('after') }
    const decision = { completes: [message], emits: [{}, {}], afterProduced } as never
    const applyDecisions = createApplyDecisions(deps)
    await applyDecisions([decision, { completes: [message], emits: [], dead: 'x' }], batch)
    expect(noted).toEqual([
      'checkLimit 1', 'seal 2', 'send', 'letters 1',
      'after', 'complete', 'completed', 'complete', 'reset',
      'error messages sent to the dead-letter topic',
    ])
  })

  it('reports what became of replayed letters before their messages are complete', async () => {
    const { noted, deps, batch } = notingDeps()
    const afterProduced = async () => { noted.push('after') }
    const replayOf = (letter: string) => {
      const raw = rawMessage(0)
      return { raw: { ...raw, headers: { ...raw.headers, replay_of: letter } } }
    }
    await createApplyDecisions(deps)([
      { completes: [replayOf('0:1'), message], emits: [], afterProduced },
      { completes: [replayOf('0:2')], emits: [], dead: 'why' },
      { completes: [replayOf('0:3')], emits: [], ignored: 'nothing to do' },
    ] as never, batch)
    expect(noted.slice(noted.indexOf('letters 1'), noted.indexOf('complete') + 1)).toEqual([
      'letters 1', 'after', 'report 0:1 replayed taken', 'report 0:2 replayed dead again: why',
      'report 0:3 ignored nothing to do', 'complete',
    ])
  })

  it('reports no forged replay', () => {
    const raw = { ...rawMessage(0), headers: { replay_of: '0:1' }, forged: true } as const
    expect(replayOutcomes(raw, { action: 'ignored', reason: 'forged' })).toEqual([])
  })

  it('completes nothing if afterProduced fails', async () => {
    const { noted, deps, batch } = notingDeps()
    const afterProduced = async () => { throw new TypeError('a bug') }
    const decision = { completes: [message], emits: [], afterProduced } as never
    await expect(createApplyDecisions(deps)([decision], batch)).rejects.toThrow('a bug')
    expect(noted).not.toContain('complete')
  })
})

describe('the partitions of a job', () => {
  const headers = { 'partitions.rows.completed': '8' }
  const incoming = (job: string, partitions = {}) =>
    ({ ...rawMessage(0), headers: { job, ...partitions } })
  const about = (job: string) => ({ topic: 'rows.completed', value: { job } })

  async function sealed (decision: object, more: object = {}) {
    const { deps, batch } = notingDeps()
    const emitted: { readonly partitions?: unknown }[] = []
    const seal = async (emissions: readonly object[]) => { emitted.push(...emissions) }
    const emitter = { ...deps.emitter, seal } as never
    const applyDecisions = createApplyDecisions({ ...deps, emitter })
    await applyDecisions([decision as never], { ...batch as object, ...more } as never)
    return emitted.map(({ partitions }) => partitions)
  }

  it('are passed on to the messages about it', async () => {
    const completes = [{ raw: incoming('a', headers) }, { raw: incoming('b') }]
    expect(await sealed({ completes, emits: [about('a'), about('b')] })).toEqual([headers, {}])
  })

  it('are passed on from a dead letter', async () => {
    const deadLettered = [incoming('a', headers)]
    expect(await sealed({ completes: [], emits: [about('a')] }, { deadLettered }))
      .toEqual([headers])
  })

  it('are those of the topology without such headers', async () => {
    expect(await sealed({ completes: [{ raw: incoming('a') }], emits: [about('a')] }))
      .toEqual([undefined])
  })
})

describe('processing of a batch', () => {
  it('retries only failed afterProduced actions, and waits for infrastructure', async () => {
    const ran: string[] = []
    const { deps, batch } = notingDeps()
    const decisionOf = (name: string, failures: number) => ({
      completes: [message],
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
      ...deps,
      metrics,
      log,
      messageCodec: plainCodec,
      stage: echoStage({ decide: async () => [decisionOf('a', 0), decisionOf('b', 2)] }),
      steps: createSteps({ metrics, log, sleep: async () => {} }),
    } as ProcessDeps)
    await process([rawMessage(0)], batch)
    expect(ran).toEqual(['a', 'b', 'b', 'b'])
  })
})

describe('dead-lettering', () => {
  const letter = { raw: rawMessage(0), reason: 'r', cause: 'failed' } as const

  it('emits for the rows, then sends the dead letter, then completes the message', async () => {
    const { noted, deps, batch } = notingDeps()
    await createDeadLetterBatch(deps, createApplyDecisions(deps))(letter, batch)
    expect(noted).toEqual([
      'checkLimit 1', 'checkLimit 0', 'seal 0', 'send', 'letters 0', 'letters 1', 'complete',
      'error message sent to the dead-letter topic',
    ])
  })

  it('sends only the dead letter if nothing can be emitted', async () => {
    const { noted, deps, batch } = notingDeps(async () => { throw new TypeError('headers') })
    await createDeadLetterBatch(deps, createApplyDecisions(deps))(letter, batch)
    expect(noted).toEqual([
      'checkLimit 1',
      'error rows of a dead letter not resolved; they stay open until ledger fails the job',
      'letters 1', 'complete',
      'error message sent to the dead-letter topic',
    ])
  })
})
