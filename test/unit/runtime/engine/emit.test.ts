import { describe, expect, it } from 'vitest'
import { createEmitter } from '../../../../services/runtime/engine/emit.ts'
import type { Emission } from '../../../../services/runtime/engine/stage.ts'
import { plainCodec } from './engine-bench.ts'

const emission = (topic: string, lane: string, job: string) =>
  ({ topic, lane, value: { job }, rows: undefined }) as unknown as Emission

describe('an emitter', () => {
  it('sends once per lane, each with a producer of its own, in order', async () => {
    const sent: string[] = []
    const emitter = createEmitter({
      messageCodec: plainCodec,
      producerOf: name => ({
        send: async messages => {
          sent.push(`${name}: ${messages.map(({ key }) => key).join(' ')}`)
        },
        close: async () => {},
      }),
    })
    await emitter.emit([
      emission('rows.completed', 'small', 'a'), emission('wallet.journal', 'small', 'b'),
      emission('rows.to-verify', 'bulk', 'c'), emission('rows.to-verify', 'small', 'd'),
    ])
    expect(sent).toEqual(['small: a b d', 'bulk: c'])
    await emitter.emit([])
    expect(sent).toHaveLength(2)
  })

  it('adds the partitions of the job to the headers', async () => {
    const sent: Readonly<Record<string, string>>[] = []
    const emitter = createEmitter({
      messageCodec: plainCodec,
      producerOf: () => ({
        send: async messages => { sent.push(...messages.map(({ headers }) => headers)) },
        close: async () => {},
      }),
    })
    const partitions = { 'partitions.rows.completed': '8' }
    await emitter.emit([{ ...emission('rows.completed', 'small', 'a'), partitions }])
    expect(sent).toEqual([expect.objectContaining(partitions)])
  })

  it('sends nothing if one message cannot be sealed', async () => {
    const emitter = createEmitter({
      messageCodec: { ...plainCodec, encode: async () => { throw new RangeError('too large') } },
      producerOf: () => ({ send: async () => expect.unreachable(), close: async () => {} }),
    })
    const sending = emitter.emit([emission('rows.completed', 'small', 'a')])
    await expect(sending).rejects.toThrow('too large')
  })
})
