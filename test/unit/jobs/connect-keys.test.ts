import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { createCodec, localSource } from '../../../services/kafka/registry.ts'
import { createJobMessageCodec } from '../../../services/jobs/connect-keys.ts'
import { createMemoryBus } from '../../support/memory-bus.ts'

describe('the message codec of a stage', () => {
  it('needs the active key in the ring', () => {
    const state = new Redis({ lazyConnect: true })
    const parts = { bus: createMemoryBus(), codec: createCodec(localSource()), state }
    const KEY_RING = { 1: Buffer.alloc(32).toString('base64') }
    expect(createJobMessageCodec(parts, { KEY_RING, KEY_ACTIVE: '1' })).toHaveProperty('decode')
    expect(() => createJobMessageCodec(parts, { KEY_RING, KEY_ACTIVE: '2' })).toThrow('KEY_ACTIVE')
  })
})
