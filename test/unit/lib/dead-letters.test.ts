import { describe, expect, it } from 'vitest'
import { createDeadLetters, deadLetter } from '../../../services/lib/dead-letters.ts'
import { FatalError } from '../../../services/lib/errors.ts'
import { createMetrics } from '../../../services/lib/metrics.ts'
import { rawMessage } from './engine-bench.ts'

const letter = { raw: rawMessage(3), reason: 'no way', cause: 'failed' } as const

describe('a dead letter', () => {
  it('is the message as it was, with where it stood as its key when it had none', () => {
    const raw = { ...letter.raw, key: Buffer.alloc(0), value: null }
    const { topic, key, value, headers } = deadLetter('verify', { raw, reason: 'r' }, 0)
    expect([topic, key, value]).toEqual(['verify.dead', 'rows.submitted.small:0:3', null])
    expect(headers).toMatchObject({ tenant: 't', dead_reason: 'r', dead_offset: '3' })
  })
})

describe('dead letters', () => {
  it('are not admitted once the limit in a row would be reached', async () => {
    const letters = createDeadLetters({
      stage: 'verify',
      producer: () => ({ send: async () => {}, close: async () => {} }),
      metrics: createMetrics(),
      limit: 3,
      now: () => 0,
    })
    letters.admit([letter, letter])
    await letters.send([letter, letter])
    expect(() => letters.admit([letter])).toThrow(FatalError)
    letters.admit([])
    letters.alive()
    letters.admit([letter])
  })
})
