import { describe, expect, it } from 'vitest'
import { MissingOrganizationKeyError } from '../../../services/crypto/key-ring.ts'
import { FatalError } from '../../../services/platform/errors.ts'
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
