import { describe, expect, it } from 'vitest'
import {
  byJob, createEmitter, dueAtMs, type Emission, collectIds, readRowCount,
} from '../../../../services/runtime/engine/stage.ts'
import { idOf, placeIn } from '../../../support/tracing.ts'
import { plainCodec } from './engine-bench.ts'

const emission = (topic: string, lane: string, job: string) =>
  ({ topic, lane, value: { job }, rows: undefined }) as unknown as Emission

function setUp (messageCodec = plainCodec) {
  const sent: string[] = []
  const headers: Readonly<Record<string, string>>[] = []
  const emitter = createEmitter({
    messageCodec,
    producerOf: name => ({
      send: async messages => {
        sent.push(`${name}: ${messages.map(({ key }) => key).join(' ')}`)
        headers.push(...messages.map(message => message.headers))
      },
      close: async () => {},
    }),
  })
  return { sent, headers, emitter }
}

describe('an emitter', () => {
  it('sends once per lane, each with a producer of its own, in order', async () => {
    const { sent, headers, emitter } = setUp()
    const partitions = { 'partitions.rows.completed': '8' }
    await emitter.emit([
      { ...emission('rows.completed', 'small', 'a'), partitions },
      emission('wallet.journal', 'small', 'b'), emission('rows.to-verify', 'bulk', 'c'),
      emission('rows.to-verify', 'small', 'd'),
    ])
    await emitter.emit([])
    expect(sent).toEqual(['small: a b d', 'bulk: c'])
    expect(headers).toEqual([partitions, {}, {}, {}])
  })

  it('sends nothing if one message cannot be sealed', async () => {
    const { sent, emitter } = setUp(
      { ...plainCodec, encode: async () => { throw new RangeError('too large') } })
    await expect(emitter.emit([emission('rows.completed', 'small', 'a')]))
      .rejects.toThrow('too large')
    expect(sent).toEqual([])
  })
})

const a = { headers: { tenant: 't', job: 'a', ...placeIn(1, 1) } }
const b = { headers: { tenant: 't', job: 'b', ...placeIn(2, 2) } }

it('the rows of a message are the bits of its bitmap, or those of its chunk, or none', () => {
  const rows = Buffer.of(0b101, 0b1).toString('base64')
  expect(readRowCount({ rows, chunkRows: '10' })).toBe(3)
  expect(readRowCount({ chunkRows: '10' })).toBe(10)
  for (const chunkRows of ['', 'x', '-1']) expect(readRowCount({ chunkRows })).toBe(0)
  expect(readRowCount({})).toBe(0)
})

it('a message is due when it was written, or later if its header says so and it is genuine', () => {
  const timestampMs = 1_000
  expect(dueAtMs({ timestampMs, headers: {} })).toBe(1_000)
  expect(dueAtMs({ timestampMs, headers: { notBefore: '900' } })).toBe(1_000)
  expect(dueAtMs({ timestampMs, headers: { notBefore: '1500' } })).toBe(1_500)
  expect(dueAtMs({ timestampMs, headers: { notBefore: '1500' }, forged: true })).toBe(1_000)
})

it('the log fields of messages have the job, or the number of jobs', () => {
  expect(collectIds([])).toEqual({})
  expect(collectIds([a])).toEqual({ tenant: 't', job: 'a', traceId: idOf(1) })
  expect(collectIds([a, b, a])).toEqual({ jobs: 2 })
  expect(collectIds([{ headers: {} }])).toEqual({})
  expect([...byJob([a, b, a])]).toEqual([['a', [a, a]], ['b', [b]]])
})
