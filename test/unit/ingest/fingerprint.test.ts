import { expect, it } from 'vitest'
import { firstSecret, requestSecretOf } from '../../../services/ingest/request.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'

const keyOf = (byte: number) => Buffer.alloc(32, byte).toString('base64')

it('the request secret stays the same after changes of the key ring', async () => {
  const { redis } = memoryRedis()
  const old = { KEY_RING: { k2: keyOf(2) }, KEY_ACTIVE: 'k2' }
  const both = { KEY_RING: { k1: keyOf(1), k2: keyOf(2) }, KEY_ACTIVE: 'k1' }
  const secret = await requestSecretOf(redis, old)
  expect(secret).toEqual(firstSecret(old.KEY_RING))
  expect(await requestSecretOf(redis, both)).toEqual(secret)
  await expect(requestSecretOf(redis, { KEY_RING: { k1: keyOf(1) }, KEY_ACTIVE: 'k1' }))
    .rejects.toThrow('lacks key "k2", which wraps a key in use (request-secret)')
})
