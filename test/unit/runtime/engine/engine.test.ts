import { EventEmitter, once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import type { Gate } from '../../../../services/runtime/engine/pause.ts'
import { FatalError, InfrastructureError } from '../../../../services/runtime/platform/errors.ts'
import { listSubscriptions } from '../../../../services/runtime/platform/topics.ts'
import { ENGINE_STEPS, type EngineStep } from '../../../../services/topology.ts'
import {
  benchOf, deciding, decisionFor, done, echo, echoStage, plainCodec, rawMessage, textOf, type Read,
} from './engine-bench.ts'

const raws = (...offsets: number[]) => offsets.map(offset => rawMessage(offset))
const ofTenant = (tenant: string, ...offsets: number[]) => offsets.map(offset =>
  ({ ...rawMessage(offset, `${tenant}${offset}`), headers: { tenant } }))
const sent = (effects: readonly string[]) =>
  effects.map(effect => effect.replace('rows.normalized ', ''))

describe('the order of effects', () => {
  it('produces, runs afterProduced, and then commits', async () => {
    const noted: string[] = []
    const stage = echoStage({
      decide: async messages => messages.flatMap(message => echo([message], {
        afterProduced: async () => { noted.push(`after ${textOf(message)}`) },
      })),
    })
    const bench = await benchOf(stage, {
      effects: {
        before: async step => { noted.push(`step ${step}`, ...bench.effects.splice(0)) },
      },
    })
    expect(await bench.deliver(raws(0, 1))).toEqual({ kind: 'done' })
    expect([...noted, ...bench.effects]).toEqual([
      'step decode', 'step open', 'step decide', 'step seal', 'step produce',
      'step dead', 'rows.normalized m0', 'rows.normalized m1',
      'step after', 'after m0', 'after m1', 'step commit', 'commit 2',
    ])
  })

  it('counts rows, completed messages, and skipped messages by reason', async () => {
    const bench = await benchOf(echoStage({
      decide: async messages => echo(messages.filter(message => textOf(message) !== 'held')),
    }), { subscriptions: [{ group: 'g', topics: [], lane: 'small', service: 'whatsapp' }] })
    await bench.deliver([rawMessage(0), rawMessage(1, 'skip'), rawMessage(2, 'held')])
    const labels = '{stage="normalize",lane="small",service="whatsapp"}'
    expect((await bench.metrics.text()).split('\n')).toEqual(expect.arrayContaining([
      `stage_rows_total${labels} 2`, `stage_chunks_total${labels} 1`,
      'stage_messages_skipped_total{stage="normalize",reason="no_key"} 1',
    ]))
    expect(bench.effects).toEqual(['rows.normalized m0', 'commit 2'])
  })
})

describe('with fair scheduling, a stage', () => {
  const byTenant = ['rows.submitted'] as const

  it.each([
    ['takes messages fetched during the delivery', { batch: 2, byTenant }, {
      messages: ofTenant('a', 0, 1, 2, 3), later: [[], ofTenant('b', 4, 5)],
    }, ['a0', 'a1', 'commit 2', 'b4', 'b5', 'a2', 'a3', 'commit 6']],
    ['gives twice the weight twice as many messages', { batch: 3, byTenant }, {
      messages: [...ofTenant('w', 0, 1, 2, 3), ...ofTenant('b', 4, 5)],
    }, ['w0', 'b4', 'w1', 'commit 2', 'b5', 'w2', 'w3', 'commit 6']],
    ['keeps the order of the partition for other topics', { batch: 2 }, {
      messages: [...ofTenant('a', 0, 1), ...ofTenant('b', 2)], later: [ofTenant('b', 3)],
    }, ['a0', 'a1', 'commit 2', 'b2', 'commit 3']],
  ])('%s', async (_, options, { messages, ...given }, expected) => {
    const bench = await benchOf(echoStage(options), { weightOf: name => name === 'w' ? 2 : 1 })
    await bench.deliver(messages, given)
    expect(sent(bench.effects)).toEqual(expected)
  })

  it('lets a tenant with many rows in flight wait while another tenant is active', async () => {
    const started: string[] = []
    const running = new Map<string, () => void>()
    const bench = await benchOf(echoStage({
      byTenant,
      decide: async messages => {
        const name = textOf(messages[0] as Read)
        started.push(name)
        await new Promise<void>(resolve => running.set(name, resolve))
        return done(messages)
      },
    }))
    const begin = async (partition: number, tenant: string, rows: number) => {
      const [message] = ofTenant(tenant, partition)
      const headers = { tenant, chunkRows: `${rows}` }
      const delivery = bench.deliver([{ ...message!, headers }], { partition })
      await turn()
      return async () => {
        running.get(`${tenant}${partition}`)?.()
        await delivery
        await turn()
      }
    }
    const [endLarge, endOther] = [await begin(0, 'a', 30_000), await begin(1, 'b', 1)]
    const endWaiting = await begin(2, 'a', 1)
    expect(started).toEqual(['a0', 'b1'])
    await endLarge()
    expect(started).toEqual(['a0', 'b1', 'a2'])
    await Promise.all([endOther(), endWaiting()])
  })
})

it.each(ENGINE_STEPS)('a crash ' +
  'before step %s loses nothing and commits nothing early', async crashAt => {
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
    const bench = await deciding(async messages => messages.flatMap(message => {
      held.set(textOf(message), message)
      const released = held.get({ m2: 'm1', m3: 'm0' }[textOf(message)] ?? '')
      return { completes: released === undefined ? [] : [released, message], emits: [] }
    }))
    await bench.deliver(raws(0, 1))
    await bench.deliver(raws(2))
    expect(bench.effects).toEqual([])
    await bench.deliver(raws(3))
    expect(bench.effects).toEqual(['commit 4'])
  })

  it('are dropped by a new generation, and committed with the last of them', async () => {
    const bench = await benchOf(pairs())
    await bench.deliver(raws(7))
    bench.assigned()
    await bench.deliver(raws(7))
    expect([bench.effects, await bench.gauge('stage_held_messages')]).toEqual([[], 1])
    await bench.deliver(raws(8))
    expect(bench.effects).toEqual(['rows.normalized pair', 'commit 9'])
  })

  it('of an old generation do not affect the new one', async () => {
    const gate = Promise.withResolvers<void>()
    const bench = await deciding(async messages => {
      await gate.promise
      return done(messages)
    })
    const life = new AbortController()
    const old = bench.deliver(raws(0), { signal: life.signal })
    bench.assigned()
    life.abort()
    gate.resolve()
    expect(await old).toEqual({ kind: 'done' })
    expect(bench.effects).toEqual([])
    await bench.deliver(raws(0))
    expect(bench.effects).toEqual(['commit 1'])
  })

  it('are not shared by subscriptions: a new generation of one group would drop those of others',
    async () => {
      const subscriptions = listSubscriptions('normalize')
      expect(subscriptions).toHaveLength(2)
      await expect(benchOf(echoStage({ flushHeld: async () => [] }), { subscriptions }))
        .rejects.toThrow('the stage normalize holds messages, but its 2 subscriptions share it')
    })
})

describe('a postponement', () => {
  const postponing = (name: string, untilMs: number, more: object = {}) => echoStage({
    ...more,
    decide: async messages => messages.map(message => textOf(message) === name
      ? { postpone: message, untilMs }
      : decisionFor([message], textOf(message))),
  })

  it.each([
    ['commits the messages below and redelivers the rest', postponing('m1', 65_000), raws(0, 1, 2),
      [1n, 60_000], ['m0', 'm2', 'commit 1']],
    ['redelivers from the first pending message of any tenant',
      postponing('b3', 5_500, { batch: 2, byTenant: ['rows.submitted'] }),
      [...ofTenant('a', 0, 1, 2), ...ofTenant('b', 3)], [1n, 500], ['a0', 'commit 1']],
    ['keeps a later message waiting that cannot be decoded', postponing('m0', 5_700),
      [rawMessage(0), rawMessage(1, 'dead')], [0n, 700], []],
    ['of several redelivers from the first', echoStage({
      decide: async ([first, second]) => [second, first].map(postpone =>
        ({ postpone: postpone as Read, untilMs: Number(postpone?.raw.offset) * 6_000 })),
    }), raws(1, 2), [1n, 1_000], []],
  ] as const)('%s', async (_, stage, messages, [fromOffset, afterMs], effects) => {
    const bench = await benchOf(stage)
    expect(await bench.deliver(messages)).toEqual({ kind: 'redeliver', fromOffset, afterMs })
    expect(sent(bench.effects)).toEqual(effects)
  })
})

describe('partitions', () => {
  it('that are revoked stop at the next step and commit nothing', async () => {
    const life = new AbortController()
    const bench = await deciding(async messages => {
      life.abort()
      return echo(messages)
    })
    expect(await bench.deliver(raws(0), { signal: life.signal })).toEqual({ kind: 'done' })
    expect(bench.effects).toEqual([])
  })

  const slots = { capacity: 1, maxCredit: 0, of: () => ({ name: 'a', cost: 1 }) }

  it.each([
    ['without slots', {}, [1, 2, 3]],
    ['with slots for one batch', { slots }, [1, 1, 1]],
  ])('are decided concurrently %s', async (_title, more, expected) => {
    let inWork = 0
    const seen: number[] = []
    const bench = await benchOf(echoStage({
      ...more,
      decide: async messages => {
        seen.push(++inWork)
        await turn()
        inWork--
        return done(messages)
      },
    }))
    await Promise.all([0, 1, 2].map(partition => bench.deliver(raws(0), { partition })))
    expect(seen).toEqual(expected)
  })

  it('that are revoked while they wait for a slot are skipped', async () => {
    const decided: number[] = []
    const revoked = new AbortController()
    const bench = await benchOf(echoStage({
      slots,
      decide: async messages => {
        decided.push(...messages.map(({ raw }) => raw.partition))
        revoked.abort()
        return done(messages)
      },
    }))
    await Promise.all(
      [bench.deliver(raws(0)), bench.deliver(raws(0), { partition: 1, signal: revoked.signal })])
    bench.assigned()
    expect([decided, await bench.gauge('stage_held_messages')]).toEqual([[0], 0])
  })
})

describe('the age of the oldest message', () => {
  const AGE = 'stage_oldest_age_seconds'
  const old = { ...rawMessage(0), timestampMs: -2_500 }

  it('is that of all partitions in progress', async () => {
    const ages: number[] = []
    const bench = await deciding(async messages => {
      ages.push(await bench.gauge(AGE))
      return done(messages)
    })
    await Promise.all([bench.deliver(raws(0)), bench.deliver([old], { partition: 1 })])
    expect([ages[0], await bench.gauge(AGE)]).toEqual([7.5, 0])
  })

  it('is the time since a message is due that was to wait', async () => {
    const ages: number[] = []
    const bench = await deciding(async messages => {
      ages.push(await bench.gauge(AGE))
      return messages.map(message => ({ postpone: message, untilMs: 6_000 }))
    })
    for (const notBefore of ['4500', '6000']) {
      await bench.deliver([{ ...old, headers: { notBefore } }])
    }
    expect(ages).toEqual([0.5, 0])
  })

  it('is that of a flush in progress, from its start', async () => {
    let nowMs = 5_000
    const flushed = Promise.withResolvers<[]>()
    const bench = await benchOf(
      echoStage({ decide: async () => [], flushHeld: () => flushed.promise }),
      { clock: { now: () => nowMs } })
    await bench.deliver(raws(0))
    const flushing = bench.running.flushHeld()
    await turn()
    nowMs += 6_000
    const during = await bench.gauge(AGE)
    flushed.resolve([])
    await flushing
    expect([during, await bench.gauge(AGE)]).toEqual([6, 0])
  })
})

describe('an outage of infrastructure', () => {
  const broken = () => new InfrastructureError('away')

  it('is waited for without dead letters, and the stage is not ready', async () => {
    const ready: boolean[] = []
    let failures = 0
    const bench = await deciding(async messages => {
      if (failures++ < 20) throw broken()
      return echo(messages)
    }, { sleep: async () => { ready.push(bench.running.ready()) } })
    expect(bench.running.ready()).toBe(true)
    await bench.deliver(raws(0))
    expect(ready).toEqual(Array.from({ length: 20 }, () => false))
    expect(bench.running.ready()).toBe(true)
    expect(bench.effects).toEqual(['rows.normalized m0', 'commit 1'])
    const text = await bench.metrics.text()
    expect(text).toContain('stage_step_seconds_count{stage="normalize",step="decide"} 1')
  })

  it('is waited for when producing, decoding and after producing, each action by itself',
    async () => {
      const ran: string[] = []
      const failing = (name: string, failures: number) => {
        ran.push(name)
        if (ran.filter(other => other === name).length <= failures) throw broken()
      }
      const bench = await benchOf(echoStage({
        decide: async messages => messages.flatMap((message, at) => echo([message], {
          afterProduced: async () => failing(textOf(message), at * 2),
        })),
      }), {
        messageCodec: {
          ...plainCodec,
          decode: async raw => {
            failing('decode', 1)
            return plainCodec.decode(raw)
          },
        },
      })
      bench.faults.push(broken(), broken())
      await bench.deliver(raws(0, 1))
      expect(ran.filter(name => name !== 'decode')).toEqual(['m0', 'm1', 'm1', 'm1'])
      expect(sent(bench.effects)).toEqual(['m0', 'm1', 'commit 2'])
      expect(await bench.metrics.text()).toContain(
        'stage_retries_total{stage="normalize",step="produce",cause="infrastructure"} 2')
    })
})

/** A gate that is closed until the test opens it. */
class TestGate extends EventEmitter implements Gate {
  #isOpen = false
  isOpen = () => this.#isOpen
  opened = async (signal: AbortSignal) => {
    if (!this.#isOpen) await once(this, 'open', { signal })
  }

  open () {
    this.#isOpen = true
    this.emit('open')
  }

  close () {
    this.#isOpen = false
  }
}

describe('a stage that is paused', () => {
  it('holds a delivery, reports its age, and starts it on resume', async () => {
    const gate = new TestGate()
    const bench = await benchOf(echoStage(), { gate })
    const delivering = bench.deliver(raws(0))
    await turn()
    expect([bench.effects, await bench.gauge('stage_oldest_age_seconds')]).toEqual([[], 4])
    gate.open()
    await delivering
    expect(sent(bench.effects)).toEqual(['m0', 'commit 1'])
  })

  it('completes the running batch, starts no other, and returns a revoked partition', async () => {
    const gate = new TestGate()
    gate.open()
    const lost = new AbortController()
    const decide = async (messages: readonly Read[]) => {
      gate.close()
      return echo(messages)
    }
    const bench = await benchOf(echoStage({ batch: 1, decide }), { gate })
    const delivering = bench.deliver(raws(0, 1), { signal: lost.signal })
    expect(await Promise.race([delivering, turn('waits')])).toBe('waits')
    expect(sent(bench.effects)).toEqual(['m0', 'commit 1'])
    lost.abort(new Error('lost'))
    expect(await delivering).toEqual({ kind: 'done' })
    expect(bench.effects).toHaveLength(2)
  })

  it('flushes no held messages until it is resumed', async () => {
    const gate = new TestGate()
    const flushHeld = vi.fn(async () => [])
    const bench = await benchOf(echoStage({ decide: async () => [], flushHeld }), { gate })
    gate.open()
    await bench.deliver(raws(0))
    gate.close()
    await bench.running.flushHeld()
    expect(flushHeld).not.toHaveBeenCalled()
    gate.open()
    await bench.running.flushHeld()
    expect(flushHeld).toHaveBeenCalledOnce()
  })
})
