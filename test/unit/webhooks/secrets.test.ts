import { beforeEach, describe, expect, it } from 'vitest'
import {
  createWebhookSecrets, type WebhookSecrets,
} from '../../../services/webhooks/secrets.ts'
import { organizationKeysOf } from '../../support/keys/organization-keys.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'

const keys = organizationKeysOf(1)

let memory: ReturnType<typeof memoryRedis>
let secrets: WebhookSecrets
let nowMs: number
beforeEach(() => {
  memory = memoryRedis()
  nowMs = 1_000_000
  secrets = createWebhookSecrets({ redis: memory.redis, keys, now: () => nowMs })
})

describe('the webhook secret of an organization', () => {
  it('is made when first shown and stays the same', async () => {
    expect(await secrets.active('org_1')).toEqual([])
    const secret = await secrets.show('org_1')
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(await secrets.show('org_1')).toBe(secret)
    expect(await secrets.active('org_1')).toEqual([secret])
    expect(await secrets.show('org_2')).not.toBe(secret)
  })

  it('is stored sealed, for its own organization only', async () => {
    const secret = await secrets.show('org_1')
    const stored = memory.hashes.get('{global}:org:org_1') ?? {}
    const bytes = Buffer.from(stored.webhookSecret ?? '', 'base64')
    expect(bytes.includes(Buffer.from(secret.slice(6), 'base64'))).toBe(false)
    memory.hashes.set('{global}:org:org_2', stored)
    await expect(secrets.show('org_2')).rejects.toThrow()
  })

  it('stays active for a day along with its successor', async () => {
    const old = await secrets.show('org_1')
    const fresh = await secrets.rotate('org_1')
    expect(fresh).not.toBe(old)
    nowMs += 86_399_999
    expect(await secrets.active('org_1')).toEqual([fresh, old])
    nowMs += 1
    expect(await secrets.active('org_1')).toEqual([fresh])
  })

  it('that was damaged does not stay active along with its successor', async () => {
    await secrets.show('org_1')
    const stored = memory.hashes.get('{global}:org:org_1') ?? {}
    const bytes = Buffer.from(stored.webhookSecret ?? '', 'base64')
    bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1)
    memory.hashes.set('{global}:org:org_1', { ...stored, webhookSecret: bytes.toString('base64') })
    await expect(secrets.active('org_1')).rejects.toThrow()
    const fresh = await secrets.rotate('org_1')
    expect(await secrets.active('org_1')).toEqual([fresh])
  })
})
