import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { createCodec, localSource } from '../../../services/kafka/registry.ts'
import { connectJobKeys, createJobMessageCodec } from '../../../services/jobs/connect-keys.ts'
import { createMemoryBus } from '../../support/memory-bus.ts'

const KEY_RING = { 1: Buffer.alloc(32).toString('base64') }
const connected = () => ({
  bus: createMemoryBus(),
  codec: createCodec(localSource()),
  state: new Redis({ lazyConnect: true, retryStrategy: () => null, port: 1 }),
})

describe('the data keys of a process', () => {
  it('are shared by services that share a connection, and by no others', async () => {
    const parts = connected()
    const ring = { KEY_RING, KEY_ACTIVE: '1' }
    const { key } = connectJobKeys(parts, ring).create('org_a.live', 'job_1')
    expect(await connectJobKeys(parts, ring).get('org_a.live', 'job_1')).toEqual(key)
    await expect(connectJobKeys(connected(), ring).get('org_a.live', 'job_1')).rejects.toThrow()
  })
})

describe('the message codec of a stage', () => {
  it('needs the active key in the ring', () => {
    const parts = connected()
    expect(createJobMessageCodec(parts, { KEY_RING, KEY_ACTIVE: '1' })).toHaveProperty('decode')
    expect(() => createJobMessageCodec(parts, { KEY_RING, KEY_ACTIVE: '2' })).toThrow('KEY_ACTIVE')
  })
})
