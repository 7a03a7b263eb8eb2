import { beforeEach, describe, expect, it } from 'vitest'
import { accountKey } from '../../../services/accounts/records.ts'
import {
  createWebhookSecrets, publicKeyText, signText, wrappedSecrets,
} from '../../../services/webhooks/secrets.ts'
import { organizationKeysOf } from '../../support/keys/organization-keys.ts'
import { workerRedis as redis, emptyRedis } from '../../support/redis/worker.ts'

const keys = organizationKeysOf(1)
const DAY_MS = 86_400_000

let nowMs: number
const now = () => nowMs
const secrets = createWebhookSecrets({ redis, keys, now })
beforeEach(async () => {
  await emptyRedis()
  nowMs = 1_000_000
})
const record = accountKey('org:org_1')

/** Changes the last of the sealed bytes in these fields of the organization. */
async function damage (...fields: readonly string[]): Promise<void> {
  for (const field of fields) {
    const bytes = Buffer.from(await redis.hget(record, field) ?? '', 'base64')
    bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1)
    await redis.hset(record, field, bytes.toString('base64'))
  }
}

describe('the webhook secret of an organization', () => {
  it('is one for processes that make or replace it at the same time', async () => {
    const other = createWebhookSecrets({ redis, keys, now })
    const [first, same] = await Promise.all([secrets.show('org_1'), other.show('org_1')])
    expect(same).toBe(first)
    const rotated = await Promise.all([secrets.rotate('org_1'), other.rotate('org_1')])
    expect((await secrets.active('org_1')).toSorted()).toEqual([first, ...rotated].toSorted())
  })

  it('is stored sealed, for its own organization only', async () => {
    const secret = await secrets.show('org_1')
    const bytes = Buffer.from(await redis.hget(record, 'webhookSecret') ?? '', 'base64')
    expect(bytes.includes(Buffer.from(secret.slice(6), 'base64'))).toBe(false)
    await redis.copy(record, accountKey('org:org_2'))
    await expect(secrets.show('org_2')).rejects.toThrow()
  })

  it('stays active for its day, however often its successors are replaced meanwhile', async () => {
    const first = await secrets.show('org_1')
    const second = await secrets.rotate('org_1')
    nowMs += 3_600_000
    const third = await secrets.rotate('org_1')
    expect(await secrets.active('org_1')).toEqual([third, second, first])
    nowMs += DAY_MS - 3_600_000
    expect(await secrets.active('org_1')).toEqual([third, second])
    nowMs += 3_600_000
    expect(await secrets.active('org_1')).toEqual([third])
    for (let times = 0; times < 20; times++) await secrets.rotate('org_1')
    expect(await secrets.active('org_1')).toHaveLength(11)
  })

  it('that is damaged does not end those before it, and is gone with the next one', async () => {
    const first = await secrets.show('org_1')
    await secrets.rotate('org_1')
    await secrets.rotate('org_1')
    await damage('webhookSecret', 'webhookSecretBefore')
    const fresh = await secrets.rotate('org_1')
    expect(await secrets.active('org_1')).toEqual([fresh, first])
    await damage('webhookSecretEarlier')
    await expect(secrets.active('org_1')).rejects.toThrow('decryption failed')
    expect([await secrets.rotate('org_1'), fresh]).toEqual(await secrets.active('org_1'))
  })

  it('is wrapped by the newest key of the organization after its rotation, with all', async () => {
    await secrets.show('org_1')
    for (let times = 0; times < 2; times++) await secrets.rotate('org_1')
    const expected = await secrets.active('org_1')
    const rotated = organizationKeysOf(1, 2)
    for (const { pieces: [piece], replace } of await wrappedSecrets(redis, 'org_1')) {
      const { bytes, binding } = piece!
      const opened = await rotated.unwrap('org_1', bytes, binding)
      expect(await replace([await rotated.wrap('org_1', opened, binding)])).toBe(true)
    }
    const others = { redis, keys: organizationKeysOf(2), now }
    expect(await createWebhookSecrets(others).active('org_1')).toEqual(expected)
  })
})

/** RFC 8032, 7.1: private key, public key, message and signature, in hex. */
it.each([
  [
    '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60',
    'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
    '',
    'e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9' +
    'b46bd25bf5f0595bbe24655141438e7a100b',
  ],
  [
    '4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb',
    '3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c',
    '72',
    '92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f1' +
    '1d8c387b2eaeb4302aeeb00d291612bb0c00',
  ],
])('Ed25519 has the vector of RFC 8032 for %s', (seed, ...expected) => {
  const [key = '', message = '', signature] = expected
  const signingKey = `whsk_${Buffer.from(seed, 'hex').toString('base64')}`
  expect(publicKeyText(signingKey)).toBe(`whpk_${Buffer.from(key, 'hex').toString('base64')}`)
  const text = Buffer.from(message, 'hex').toString()
  expect(signText(signingKey, text).toString('hex')).toBe(signature)
})
