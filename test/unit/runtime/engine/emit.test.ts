import { describe, expect, it } from 'vitest'
import { createEmitter } from '../../../../services/runtime/engine/emit.ts'
import type { Emission } from '../../../../services/runtime/engine/stage.ts'
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
