import type { Redis } from 'ioredis'
import { idempotencyFieldOf, idempotencyKeysOf } from '../../services/jobs/redis-keys.ts'

export type Binding = {
  /** The hash that has it, even or odd by the day of its first use. */
  readonly hash: string
  readonly endsAtMs: number
  readonly job: string
  /** In hex. */
  readonly fingerprint: string
}

/** The binding of an idempotency key, as the scripts store it. */
export async function bindingOf (
  redis: Redis, tenant: string, key: string
): Promise<Binding | undefined> {
  const found: Binding[] = []
  for (const hash of idempotencyKeysOf(tenant)) {
    const value = await redis.hgetBuffer(hash, idempotencyFieldOf(key))
    if (value === null) continue
    const colon = value.indexOf(':', 6)
    found.push({
      hash,
      endsAtMs: value.readUIntBE(0, 6),
      job: `job_${value.subarray(6, colon).toString()}`,
      fingerprint: value.subarray(colon + 1).toString('hex'),
    })
  }
  if (found.length > 1) throw new Error(`the key ${key} of ${tenant} is bound twice`)
  return found[0]
}

/** Moves the end of a binding, as if it had been made so much earlier or later. */
export async function moveEnd (
  redis: Redis, { hash, endsAtMs, key }: Binding & { readonly key: string }
): Promise<void> {
  const value = await redis.hgetBuffer(hash, idempotencyFieldOf(key))
  if (value === null) throw new Error(`${hash} has no key ${key}`)
  value.writeUIntBE(endsAtMs, 0, 6)
  await redis.hset(hash, idempotencyFieldOf(key), value)
}
