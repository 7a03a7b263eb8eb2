import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { FatalError, InfrastructureError } from '../../../../services/runtime/platform/errors.ts'
import { ENGINE_STEPS, type EngineStep } from '../../../../services/topology.ts'
import {
  benchOf, decisionFor, echoStage, notingBus, plainCodec, rawMessage, textOf, type Read,
} from './engine-bench.ts'

const raws = (...offsets: number[]) => offsets.map(offset => rawMessage(offset))

describe('the order of effects', () => {
  it('produces, runs afterProduced, and then commits', async () => {
    const noted: string[] = []
    const stage = echoStage({
      decide: async messages => messages.map(message => decisionFor([message], textOf(message), {
        afterProduced: async () => { noted.push(`after ${textOf(message)}`) },
      })),
    })
    const bench = await benchOf(stage, {
      effects: {
        before: async step => {
          noted.push(`step ${step}`, ...bench.effects.splice(0))
        },
      },
    })
    expect(await bench.deliver(raws(0, 1))).toEqual({ kind: 'done' })
    expect([...noted, ...bench.effects]).toEqual([
      'step decode', 'step open', 'step decide', 'step seal', 'step produce',
      'step dead', 'rows.normalized m0', 'rows.normalized m1',
      'step after', 'after m0', 'after m1', 'step commit', 'commit 2',
    ])
  })

  it('splits a delivery into batches and commits each', async () => {
    const sizes: number[] = []
    const bench = await benchOf(echoStage({
      batch: 2,
      decide: async messages => {
        sizes.push(messages.length)
        return messages.map(message => ({ completes: [message], emits: [] }))
      },
    }))
    await bench.deliver(raws(0, 1, 2))
    expect(sizes).toEqual([2, 1])
    expect(bench.effects).toEqual(['commit 2', 'commit 3'])
  })

  describe('with fair scheduling of tenants', () => {
    const of = (tenant: string, offset: number) =>
      ({ ...rawMessage(offset, `${tenant}${offset}`), headers: { tenant } })
    const sent = (effects: readonly string[]) =>
      effects.map(effect => effect.replace('rows.normalized ', ''))

    it('includes messages fetched during the delivery', async () => {
      const bench = await benchOf(echoStage({ batch: 2, byTenant: ['rows.submitted'] }))
      await bench.deliver([of('a', 0), of('a', 1), of('a', 2), of('a', 3)], {
        later: [[], [of('b', 4), of('b', 5)]],
      })
      expect(sent(bench.effects)).toEqual([
        'a0', 'a1', 'commit 2', 'b4', 'b5', 'a2', 'a3', 'commit 6',
      ])
    })

    it('gives twice the weight twice as many messages', async () => {
      const stage = echoStage({ batch: 3, byTenant: ['rows.submitted'] })
      const bench = await benchOf(stage, { weightOf: tenant => tenant === 'a' ? 2 : 1 })
      await bench.deliver([...[0, 1, 2, 3].map(at => of('a', at)), of('b', 4), of('b', 5)])
      expect(sent(bench.effects)).toEqual([
        'a0', 'b4', 'a1', 'commit 2', 'b5', 'a2', 'a3', 'commit 6',
      ])
    })

    it('lets a tenant with many rows in flight wait while another tenant is active', async () => {
      const started: string[] = []
      const running = new Map<string, () => void>()
      const bench = await benchOf(echoStage({
        byTenant: ['rows.submitted'],
        decide: async ([message]) => {
          const name = textOf(message as Read)
          started.push(name)
          await new Promise<void>(resolve => running.set(name, resolve))
          return [{ completes: [message as Read], emits: [] }]
        },
      }))
      const begin = async (partition: number, tenant: string, rows: number) => {
        const headers = { tenant, chunkRows: `${rows}` }
        const delivery = bench.deliver([{ ...of(tenant, partition), headers }], { partition })
        await setImmediate()
        const end = async () => {
          running.get(`${tenant}${partition}`)?.()
          await delivery
          await setImmediate()
        }
        return { end }
      }
      const large = await begin(0, 'a', 30_000)
      const other = await begin(1, 'b', 1)
      const waiting = await begin(2, 'a', 1)
      expect(started).toEqual(['a0', 'b1'])
      await large.end()
      expect(started).toEqual(['a0', 'b1', 'a2'])
      await Promise.all([other.end(), waiting.end()])
    })

    it('redelivers from the first pending message after a postponement', async () => {
      const bench = await benchOf(echoStage({
        batch: 2,
        byTenant: ['rows.submitted'],
        decide: async messages => messages.map(message => message.raw.offset === 3n
          ? { postpone: message, untilMs: 5_500 }
          : decisionFor([message], String(message.raw.value))),
      }))
      const outcome = await bench.deliver([of('a', 0), of('a', 1), of('a', 2), of('b', 3)])
      expect(outcome).toEqual({ kind: 'redeliver', fromOffset: 1n, afterMs: 500 })
      expect(sent(bench.effects)).toEqual(['a0', 'commit 1'])
    })

    it('keeps the order of partitions for other topics', async () => {
      const bench = await benchOf(echoStage({ batch: 2 }))
      await bench.deliver([of('a', 0), of('a', 1), of('b', 2)], { later: [[of('b', 3)]] })
      expect(sent(bench.effects)).toEqual(['a0', 'a1', 'commit 2', 'b2', 'commit 3'])
    })
  })

  it('sends dead letters after the emissions for them', async () => {
    const bench = await benchOf(echoStage({
      decide: async messages => [decisionFor(messages, 'rows', { dead: 'no way' })],
    }))
    await bench.deliver(raws(4))
    expect(bench.effects).toEqual(['rows.normalized rows', 'normalize.dead m4', 'commit 5'])
    expect(bench.letters[0]?.headers).toEqual({
      tenant: 't',
      chunkRows: '2',
      dead_reason: 'no way',
      dead_stage: 'normalize',
      dead_topic: 'rows.submitted.small',
      dead_partition: '0',
      dead_offset: '4',
      dead_at: '1970-01-01T00:00:05.000Z',
    })
    expect(bench.letters[0]?.key).toBe('key4')
  })

  it('counts rows, messages, and skipped messages by reason', async () => {
    const bench = await benchOf(echoStage())
    await bench.deliver([rawMessage(0), rawMessage(1, 'skip')])
    const text = await bench.metrics.text()
    expect(text).toContain('stage_rows_total{stage="normalize",lane="small",service=""} 2')
    expect(text).toContain('stage_chunks_total{stage="normalize",lane="small",service=""} 1')
    expect(text).toContain('stage_messages_skipped_total{stage="normalize",reason="closed"} 1')
    expect(text).toContain('stage_oldest_age_seconds{stage="normalize",group="normalize.small"} 0')
    expect(bench.effects).toEqual(['rows.normalized m0', 'commit 2'])
  })
})

describe('a crash', () => {
  it.each(ENGINE_STEPS)('before step %s loses nothing and commits nothing early', async crashAt => {
    let crashed = false
    const after: string[] = []
    const stage = echoStage({
      decide: async messages => messages.map(message => decisionFor([message], textOf(message), {
        afterProduced: async () => { after.push(textOf(message)) },
        ...textOf(message) === 'm1' && { dead: 'no way' },
      })),
    })
    const before = async (step: EngineStep) => {
      if (step !== crashAt || crashed) return
      crashed = true
      throw new Error('the process is gone')
    }
    const bench = await benchOf(stage, { effects: { before } })
    await expect(bench.deliver(raws(0, 1))).rejects.toBeInstanceOf(FatalError)
    expect(bench.effects.filter(effect => effect.startsWith('commit'))).toEqual([])
    bench.assigned()
    expect(await bench.deliver(raws(0, 1))).toEqual({ kind: 'done' })
    expect(new Set(bench.effects)).toEqual(new Set([
      'rows.normalized m0', 'rows.normalized m1', 'normalize.dead m1', 'commit 2',
    ]))
    expect(bench.effects.at(-1)).toBe('commit 2')
    expect(new Set(after)).toEqual(new Set(['m0', 'm1']))
  })
})

describe('held messages', () => {
  const pairs = () => {
    const held: Read[] = []
    return echoStage({
      decide: async messages => {
        held.push(...messages)
        return held.length < 2 ? [] : [decisionFor(held.splice(0), 'pair')]
      },
      forget: () => { held.length = 0 },
    })
  }

  it('keep the committed offset below the lowest of them', async () => {
    const held = new Map<string, Read>()
    const bench = await benchOf(echoStage({
      decide: async messages => messages.flatMap(message => {
        held.set(textOf(message), message)
        const released = held.get({ m2: 'm1', m3: 'm0' }[textOf(message)] ?? '')
        return { completes: released === undefined ? [] : [released, message], emits: [] }
      }),
    }))
    await bench.deliver(raws(0, 1))
    await bench.deliver(raws(2))
    expect(bench.effects).toEqual([])
    await bench.deliver(raws(3))
    expect(bench.effects).toEqual(['commit 4'])
  })

  it('are committed with the message that completes them', async () => {
    const bench = await benchOf(pairs())
    await bench.deliver(raws(7))
    expect(bench.effects).toEqual([])
    expect(await bench.metrics.text())
      .toContain('stage_held_messages{stage="normalize",group="normalize.small"} 1')
    await bench.deliver(raws(8))
    expect(bench.effects).toEqual(['rows.normalized pair', 'commit 9'])
  })

  it('are dropped by a new generation', async () => {
    const bench = await benchOf(pairs())
    await bench.deliver(raws(0))
    bench.assigned()
    await bench.deliver(raws(0))
    expect(bench.effects).toEqual([])
    await bench.deliver(raws(1))
    expect(bench.effects).toEqual(['rows.normalized pair', 'commit 2'])
  })

  it('of an old generation do not affect the new one', async () => {
    const gate = Promise.withResolvers<undefined>()
    let isFirst = true
    const bench = await benchOf(echoStage({
      decide: async messages => {
        if (isFirst) {
          isFirst = false
          await gate.promise
        }
        return messages.map(message => ({ completes: [message], emits: [] }))
      },
    }))
    const life = new AbortController()
    const old = bench.deliver(raws(0), { signal: life.signal })
    bench.assigned()
    life.abort()
    gate.resolve(undefined)
    expect(await old).toEqual({ kind: 'done' })
    expect(bench.effects).toEqual([])
    await bench.deliver(raws(0))
    expect(bench.effects).toEqual(['commit 1'])
  })
})

describe('postponement', () => {
  it('commits the messages below and redelivers the rest', async () => {
    const bench = await benchOf(echoStage({
      decide: async messages => messages.map(message => textOf(message) === 'm1'
        ? { postpone: message, untilMs: 65_000 }
        : decisionFor([message], textOf(message))),
    }))
    const outcome = await bench.deliver(raws(0, 1, 2))
    expect(outcome).toEqual({ kind: 'redeliver', fromOffset: 1n, afterMs: 60_000 })
    expect(bench.effects).toEqual(['rows.normalized m0', 'rows.normalized m2', 'commit 1'])
  })

  it('that is due is redelivered at once', async () => {
    const bench = await benchOf(echoStage({
      decide: async ([message]) => [{ postpone: message as Read, untilMs: 1 }],
    }))
    expect(await bench.deliver(raws(3))).toEqual({ kind: 'redeliver', fromOffset: 3n, afterMs: 0 })
    expect(bench.effects).toEqual([])
  })
})

describe('two stages of one process', () => {
  it('share a producer per lane and one for dead letters, which outlive each of them', async () => {
    const shared = notingBus()
    const poisoned = { decide: async () => { throw new TypeError('cannot decide') } }
    const first = await benchOf(echoStage(), {}, shared)
    const second = await benchOf(echoStage(), {}, shared)
    const failing = await benchOf(echoStage(poisoned), {}, shared)
    await first.deliver(raws(0))
    await failing.deliver(raws(1))
    await first.running.stop()
    await second.deliver(raws(2))
    await failing.deliver(raws(3))
    expect([...shared.producers.keys()].toSorted()).toEqual(['dead', 'small'])
    expect(shared.effects.filter(effect => !effect.includes('.dead'))).toEqual([
      'rows.normalized m0', 'commit 1', 'commit 2', 'stopped', 'rows.normalized m2', 'commit 3',
      'commit 4',
    ])
    expect(shared.letters).toHaveLength(2)
  })
})

describe('a revoked partition', () => {
  it('stops at the next step and commits nothing', async () => {
    const life = new AbortController()
    const bench = await benchOf(echoStage({
      decide: async messages => {
        life.abort()
        return messages.map(message => decisionFor([message], textOf(message)))
      },
    }))
    expect(await bench.deliver(raws(0), { signal: life.signal })).toEqual({ kind: 'done' })
    expect(bench.effects).toEqual([])
  })
})

describe('an outage of infrastructure', () => {
  const broken = () => new InfrastructureError('away')

  it('is waited for without dead letters, and the stage is not ready', async () => {
    const ready: boolean[] = []
    let failures = 0
    const bench = await benchOf(echoStage({
      decide: async messages => {
        if (failures++ < 20) throw broken()
        return messages.map(message => decisionFor([message], textOf(message)))
      },
    }), { sleep: async () => { ready.push(bench.running.ready()) } })
    expect(bench.running.ready()).toBe(true)
    await bench.deliver(raws(0))
    expect(ready).toEqual(Array.from({ length: 20 }, () => false))
    expect(bench.running.ready()).toBe(true)
    expect(bench.effects).toEqual(['rows.normalized m0', 'commit 1'])
  })

  it('is waited for when producing, decoding and after producing', async () => {
    const failOnce = () => {
      let failed = false
      return () => {
        if (failed) return
        failed = true
        throw broken()
      }
    }
    const [opening, following] = [failOnce(), failOnce()]
    const bench = await benchOf(echoStage({
      decide: async messages => messages.map(message => decisionFor([message], textOf(message), {
        afterProduced: async () => following(),
      })),
    }), {
      messageCodec: {
        ...plainCodec,
        decode: async raw => {
          opening()
          return plainCodec.decode(raw)
        },
      },
    })
    bench.faults.push(broken(), broken())
    await bench.deliver(raws(0))
    expect(bench.effects).toEqual(['rows.normalized m0', 'commit 1'])
    expect(await bench.metrics.text()).toContain(
      'stage_retries_total{stage="normalize",step="produce",cause="infrastructure"} 2')
  })
})
