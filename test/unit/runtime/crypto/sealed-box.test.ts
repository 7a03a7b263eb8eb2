import { describe, expect, it } from 'vitest'
import {
  SealError, boxPublicKey, openBox, sealBox,
} from '../../../../services/runtime/crypto/seal.ts'

const secret = Buffer.alloc(32, 1)
const plain = Buffer.alloc(32, 9)

describe('a sealed box', () => {
  it('is opened by the secret key alone, with the same binding', async () => {
    const publicKey = await boxPublicKey(secret)
    const sealed = await sealBox(publicKey, ['data-key', 'job_1'], plain)
    expect([publicKey.length, sealed.length]).toEqual([32, 80])
    expect(await openBox(secret, ['data-key', 'job_1'], sealed)).toEqual(plain)
    await expect(openBox(secret, ['data-key', 'job_2'], sealed)).rejects.toThrow(SealError)
    await expect(openBox(publicKey, ['data-key', 'job_1'], sealed)).rejects.toThrow(SealError)
    const changed = Buffer.from(sealed)
    changed[40]! ^= 1
    await expect(openBox(secret, ['data-key', 'job_1'], changed)).rejects.toThrow(SealError)
    await expect(openBox(secret, [], Buffer.alloc(3))).rejects.toThrow(SealError)
  })
})
