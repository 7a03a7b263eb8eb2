import { describe, expect, it } from 'vitest'
import { MissingOrganizationKeyError } from '../../../../services/runtime/crypto/key-ring.ts'
import { FatalError, InfrastructureError } from '../../../../services/runtime/platform/errors.ts'
import { replayOutcomes } from '../../../../services/runtime/engine/dead-letters.ts'
import { createLog } from '../../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'
import { Process, type ProcessDeps } from '../../../../services/runtime/engine/process.ts'
import { Steps } from '../../../../services/runtime/engine/steps.ts'
import type { Incoming } from '../../../../services/runtime/engine/stage.ts'
import { benchOf, decisionFor, echoStage, plainCodec, rawMessage, textOf } from './engine-bench.ts'

/** A stage that cannot decide messages of this text, and its calls. */
function poisonedBy (text: string) {
  const decided: string[] = []
  const stage = echoStage({
    decide: async messages => {
      decided.push(messages.map(textOf).join(' '))
      if (messages.some(message => textOf(message) === text)) throw new Error('cannot be decided')
      return messages.map(message => decisionFor([message], textOf(message)))
    },
    resolveDead: async headers => decisionFor([], `rows of ${headers.tenant}`).emits,
  })
  return { decided, stage }
}

describe('a message whose decision fails', () => {
  it('is tried three times, then alone three times, then a dead letter', async () => {
    const { decided, stage } = poisonedBy('m1')
    const bench = await benchOf(stage)
    const outcome = await bench.deliver([rawMessage(0), rawMessage(1), rawMessage(2)])
    expect(outcome).toEqual({ kind: 'done' })
    expect(decided).toEqual(['m0 m1 m2', 'm0 m1 m2', 'm0 m1 m2', 'm0', 'm1', 'm1', 'm1', 'm2'])
    expect(bench.effects).toEqual([
      'rows.normalized m0', 'rows.normalized rows of t', 'normalize.dead m1', 'rows.normalized m2',
      'commit 3',
    ])
    expect(bench.letters[0]?.headers.dead_reason).toBe('decision failed')
  })

  it('is decided if a retry succeeds', async () => {
    let calls = 0
    const bench = await benchOf(echoStage({
      decide: async messages => {
        if (++calls < 3) throw new Error('at times')
        return messages.map(message => decisionFor([message], textOf(message)))
      },
    }))
    await bench.deliver([rawMessage(0)])
    expect(bench.effects).toEqual(['rows.normalized m0', 'commit 1'])
    expect(await bench.metrics.text())
      .toContain('stage_retries_total{stage="normalize",step="decide",cause="failure"} 2')
  })

  it('is also one whose emission cannot be sealed', async () => {
    const bench = await benchOf(echoStage(), {
      messageCodec: {
        ...plainCodec,
        encode: async emission => {
          if ((emission.value as { job: string }).job === 'm0') throw new RangeError('too large')
          return plainCodec.encode(emission)
        },
      },
    })
    await bench.deliver([rawMessage(0), rawMessage(1)])
    expect(bench.effects).toEqual(['normalize.dead m0', 'rows.normalized m1', 'commit 2'])
  })

  it('is a dead letter even if nothing can be emitted for it', async () => {
    const { stage } = poisonedBy('m0')
    const resolveDead = async () => { throw new Error('headers') }
    const bench = await benchOf({ ...stage, resolveDead })
    await bench.deliver([rawMessage(0)])
    expect(bench.effects).toEqual(['normalize.dead m0', 'commit 1'])
  })
})

describe('a message that cannot be decoded', () => {
  it('is a dead letter at once if the codec says so', async () => {
    const { stage } = poisonedBy('')
    const bench = await benchOf(stage)
    await bench.deliver([rawMessage(0, 'dead'), rawMessage(1)])
    expect(bench.effects).toEqual([
      'rows.normalized rows of t', 'normalize.dead dead', 'rows.normalized m1', 'commit 2',
    ])
    expect(bench.letters[0]?.headers.dead_reason).toBe('bad bytes')
    expect(await bench.metrics.text())
      .toContain('stage_dead_letters_total{stage="normalize",cause="unreadable"} 1')
  })

  it('is a dead letter after the messages before it are decided', async () => {
    const bench = await benchOf(echoStage({
      resolveDead: async headers => decisionFor([], `rows of ${headers.tenant}`).emits,
    }))
    await bench.deliver([rawMessage(0), rawMessage(1, 'dead'), rawMessage(2)])
    expect(bench.effects).toEqual([
      'rows.normalized m0', 'rows.normalized rows of t', 'normalize.dead dead',
      'rows.normalized m2', 'commit 3',
    ])
  })

  it('waits if a message before it is postponed', async () => {
    const bench = await benchOf(echoStage({
      decide: async ([first]) => [{ postpone: first as never, untilMs: 5_700 }],
    }))
    const outcome = await bench.deliver([rawMessage(0), rawMessage(1, 'dead')])
    expect(outcome).toEqual({ kind: 'redeliver', fromOffset: 0n, afterMs: 700 })
    expect(bench.effects).toEqual([])
  })

  it('is a dead letter after three tries if decoding throws', async () => {
    let calls = 0
    const open = async () => {
      calls++
      throw new Error('no such format')
    }
    const bench = await benchOf(echoStage(), { messageCodec: { ...plainCodec, decode: open } })
    await bench.deliver([rawMessage(0)])
    expect(calls).toBe(3)
    expect(bench.effects).toEqual(['normalize.dead m0', 'commit 1'])
    expect(bench.letters[0]?.headers.dead_reason).toBe('unreadable')
  })
})

describe('a message of an organization that lacks a key', () => {
  const missing = new MissingOrganizationKeyError('no key', { wraps: 'rows', advice: 'restore' })
  const isLost = (text: string) => text.startsWith('lost')
  /** Stops at the second failure in a row. */
  const deadLimit = 2

  it('is a dead letter at once, its rows stay open, and the stage goes on', async () => {
    const { stage } = poisonedBy('')
    const bench = await benchOf(stage, {
      deadLimit,
      messageCodec: {
        ...plainCodec,
        decode: async raw => {
          if (isLost(String(raw.value))) throw missing
          return await plainCodec.decode(raw)
        },
      },
    })
    const lost = [0, 1, 2].map(offset => rawMessage(offset, `lost${offset}`))
    await bench.deliver([...lost, rawMessage(3)])
    expect(bench.effects).toEqual([
      'normalize.dead lost0', 'normalize.dead lost1', 'normalize.dead lost2', 'rows.normalized m3',
      'commit 4',
    ])
    expect(bench.letters.map(({ headers }) => headers.dead_reason))
      .toEqual(['missing_key', 'missing_key', 'missing_key'])
    const metrics = await bench.metrics.text()
    expect(metrics)
      .toContain('stage_dead_letters_total{stage="normalize",cause="missing_key"} 3')
    expect(metrics).not.toMatch(/stage_retries_total\{.*cause="failure"\} [1-9]/)
  })

  it('is one too if it is decided, but what it emits cannot be sealed', async () => {
    const bench = await benchOf(echoStage(), {
      deadLimit,
      messageCodec: {
        ...plainCodec,
        encode: async emission => {
          if (isLost((emission.value as { job: string }).job)) throw missing
          return await plainCodec.encode(emission)
        },
      },
    })
    await bench.deliver([rawMessage(0, 'lost0'), rawMessage(1, 'lost1'), rawMessage(2)])
    expect(bench.effects).toEqual([
      'normalize.dead lost0', 'normalize.dead lost1', 'rows.normalized m2', 'commit 3',
    ])
  })

  it('does not become one after the end of its delivery', async () => {
    const ending = new AbortController()
    const bench = await benchOf(echoStage({
      decide: async () => {
        ending.abort()
        throw missing
      },
    }))
    await bench.deliver([rawMessage(0)], { signal: ending.signal })
    expect(bench.effects).toEqual([])
  })
})

describe('the limit of dead letters', () => {
  const dead = (offset: number) => rawMessage(offset, 'dead')

  it('stops the stage before the last of them, which is not committed', async () => {
    const bench = await benchOf(echoStage({ batch: 1 }), { deadLimit: 3 })
    await expect(bench.deliver([dead(0), dead(1), dead(2)])).rejects.toBeInstanceOf(FatalError)
    expect(bench.effects).toEqual([
      'normalize.dead dead', 'commit 1', 'normalize.dead dead', 'commit 2',
    ])
  })

  it('is reset after a decided message', async () => {
    const bench = await benchOf(echoStage({ batch: 1 }), { deadLimit: 2 })
    await bench.deliver([dead(0), rawMessage(1), dead(2)])
    expect(bench.effects.at(-1)).toBe('commit 3')
  })
})

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
    steps: { run: (_: string, action: () => Promise<unknown>) => action() },
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

describe('decisions that are applied', () => {
  it('seals and sends all emissions together, and completes messages last', async () => {
    const { noted, deps, batch } = notingDeps()
    const afterProduced = async () => { noted.push('after') }
    const decision = { completes: [message], emits: [{}, {}], afterProduced } as never
    await new Process(deps).apply([decision, { completes: [message], emits: [], dead: 'x' }], batch)
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
    await new Process(deps).apply([
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
    await expect(new Process(deps).apply([decision], batch)).rejects.toThrow('a bug')
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
    await new Process({ ...deps, emitter })
      .apply([decision as never], { ...batch as object, ...more } as never)
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
        const runs = ran.filter(other => other === name).length
        if (runs <= failures) throw new InfrastructureError('away')
      },
    })
    const metrics = createMetrics()
    const log = createLog('x', { level: 'silent' })
    const process = new Process({
      ...deps,
      metrics,
      log,
      messageCodec: plainCodec,
      stage: echoStage({ decide: async () => [decisionOf('a', 0), decisionOf('b', 2)] }),
      steps: new Steps({ metrics, log, sleep: async () => {} }),
    } as ProcessDeps)
    await process.run([rawMessage(0)], batch)
    expect(ran).toEqual(['a', 'b', 'b', 'b'])
  })
})

describe('dead-lettering', () => {
  const letter = { raw: rawMessage(0), reason: 'r', cause: 'failed' } as const

  it('emits for the rows, then sends the dead letter, then completes the message', async () => {
    const { noted, deps, batch } = notingDeps()
    await new Process(deps).deadLetter(letter, batch)
    expect(noted).toEqual([
      'checkLimit 1', 'checkLimit 0', 'seal 0', 'send', 'letters 0', 'letters 1', 'complete',
      'error message sent to the dead-letter topic',
    ])
  })

  it('sends only the dead letter if nothing can be emitted', async () => {
    const { noted, deps, batch } = notingDeps(async () => { throw new TypeError('headers') })
    await new Process(deps).deadLetter(letter, batch)
    expect(noted).toEqual([
      'checkLimit 1',
      'error rows of a dead letter not resolved; they stay open until ledger fails the job',
      'letters 1', 'complete',
      'error message sent to the dead-letter topic',
    ])
  })
})
