import { expect, it } from 'vitest'
import { firstSecret } from '../../../services/ingest/fingerprint.ts'
import { isUnavailable, requestSecretOf } from '../../../services/ingest/key-ring.ts'
import { FatalError, InfrastructureError } from '../../../services/platform/errors.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'

const keyOf = (byte: number) => Buffer.alloc(32, byte).toString('base64')

it('whoever takes requests has the same secret, whatever keys the ring has since', async () => {
  const { redis } = memoryRedis()
  const old = { KEY_RING: { k2: keyOf(2) }, KEY_ACTIVE: 'k2' }
  const both = { KEY_RING: { k1: keyOf(1), k2: keyOf(2) }, KEY_ACTIVE: 'k1' }
  const secret = await requestSecretOf(redis, old)
  expect(secret).toEqual(firstSecret(old.KEY_RING))
  expect(await requestSecretOf(redis, both)).toEqual(secret)
  await expect(requestSecretOf(redis, { KEY_RING: { k1: keyOf(1) }, KEY_ACTIVE: 'k1' }))
    .rejects.toThrow('lacks key "k2", which wraps a key in use (request-secret)')
})

it('a ring that lacks a key is answered as an outage is, as nothing is lost by it', () => {
  expect(isUnavailable(new FatalError('lacks'))).toBe(true)
  expect(isUnavailable(new InfrastructureError('away'))).toBe(true)
  expect(isUnavailable(new Error('other'))).toBe(false)
})
