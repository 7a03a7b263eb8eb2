import { describe, expect, it } from 'vitest'
import type { OutgoingMessage } from '../../../../services/runtime/kafka/bus.ts'
import { createDeadLetters, deadLetter } from '../../../../services/runtime/engine/dead-letters.ts'
import { UnsendableError } from '../../../../services/runtime/kafka/safe-producer.ts'
import { FatalError } from '../../../../services/runtime/platform/errors.ts'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'
import { rawMessage } from './engine-bench.ts'

const letter = { raw: rawMessage(3), reason: 'no way', cause: 'failed' } as const

describe('a dead letter', () => {
  it('is the unchanged message, with its source as key if it had none', () => {
    const raw = { ...letter.raw, key: Buffer.alloc(0), value: null }
    const { topic, key, value, headers } = deadLetter('verify', { raw, reason: 'r' }, 0)
    expect([topic, key, value]).toEqual(['verify.dead', 'rows.submitted.small:0:3', null])
    expect(headers).toMatchObject({ tenant: 't', dead_reason: 'r', dead_offset: '3' })
  })
})

describe('dead letters', () => {
  it('throw before the limit in a row is reached', async () => {
    const letters = createDeadLetters({
      stage: 'verify',
      producer: () => ({ send: async () => {}, close: async () => {} }),
      metrics: createMetrics(),
      limit: 3,
      now: () => 0,
    })
    letters.checkLimit([[letter], [letter]])
    await letters.send([[letter], [letter]])
    expect(() => letters.checkLimit([[letter]])).toThrow(FatalError)
    letters.checkLimit([])
    letters.reset()
    letters.checkLimit([[letter]])
  })

  it('too large for the broker are sent without value, others unchanged', async () => {
    const written: OutgoingMessage[] = []
    const letters = createDeadLetters({
      stage: 'feed',
      producer: () => ({
        send: async messages => {
          const bytes = ({ key, value, headers }: OutgoingMessage) =>
            key.length + (value?.length ?? 0) + JSON.stringify(headers).length
          if (messages.some(one => bytes(one) > 1_000_000)) throw new UnsendableError('too large')
          written.push(...messages)
        },
        close: async () => {},
      }),
      metrics: createMetrics(),
      limit: Infinity,
      now: () => 0,
    })
    const large = Buffer.alloc(1_000_000)
    const raws = [
      rawMessage(0), { ...rawMessage(1), value: large }, { ...rawMessage(2), key: large },
      { ...rawMessage(3), headers: { own: large.toString() } },
    ]
    await letters.send([raws.map(raw => ({ ...letter, raw }))])
    const sorted = written.toSorted((one, other) =>
      Number(one.headers.dead_offset) - Number(other.headers.dead_offset))
    expect(sorted.map(({ key, value }) => [key, value === null])).toEqual([
      ['key0', false], ['key1', true], ['rows.submitted.small:0:2', true], ['key3', true],
    ])
    expect(sorted.map(({ headers }) => headers.dead_value))
      .toEqual([undefined, ...new Array(3).fill('left out, too large')])
    expect(sorted.map(({ headers }) => headers.dead_reason)).toEqual(new Array(4).fill('no way'))
    expect([sorted[1]?.headers.tenant, sorted[3]?.headers.own]).toEqual(['t', undefined])
  })

  it('of one decision count once, and each of them is sent', async () => {
    const written: OutgoingMessage[] = []
    const metrics = createMetrics()
    const letters = createDeadLetters({
      stage: 'lookup',
      producer: () => ({
        send: async (messages) => { written.push(...messages) }, close: async () => {},
      }),
      metrics,
      limit: 3,
      now: () => 0,
    })
    const bigJob = Array.from({ length: 100 }, (_, offset) =>
      ({ ...letter, raw: rawMessage(offset) }))
    letters.checkLimit([bigJob, bigJob])
    await letters.send([bigJob, bigJob])
    expect(written.map(({ key }) => key).slice(98, 102))
      .toEqual(['key98', 'key99', 'key0', 'key1'])
    expect(await metrics.text())
      .toContain('stage_dead_letters_total{stage="lookup",cause="failed"} 200')
    expect(() => letters.checkLimit([bigJob])).toThrow('3 decisions in a row failed')
  })
})
