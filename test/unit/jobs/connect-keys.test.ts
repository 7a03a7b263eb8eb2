import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { createCodec } from '../../../services/runtime/kafka/registry.ts'
import { localSource } from '../../support/kafka/local-schemas.ts'
import { connectJobKeys, createJobMessageCodec } from '../../../services/jobs/connect-keys.ts'
import { createMemoryBus } from '../../support/kafka/memory-bus.ts'

const connected = () => ({
  bus: createMemoryBus(),
  codec: createCodec(localSource()),
  state: new Redis({ lazyConnect: true, retryStrategy: () => null, port: 1 }),
})
const roots = (active: string) => ({
  RESULTS_ROOT_KEYS: { 1: Buffer.alloc(32).toString('base64') }, RESULTS_ROOT_KEY_ACTIVE: active,
})

describe('the message codec of a stage', () => {
  it('needs the active root key', () => {
    expect(createJobMessageCodec(connected(), roots('1'))).toHaveProperty('decode')
    expect(() => createJobMessageCodec(connected(), roots('2'))).toThrow('RESULTS_ROOT_KEYS')
  })
})

it('the keys of jobs need a state Redis', async () => {
  const keys = connectJobKeys(connected(), roots('1'), { part: 'results' })
  await expect(keys.get('org_a.live', 'job_1')).rejects.toThrow()
})
