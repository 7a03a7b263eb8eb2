import { taggedTenant } from '../money/redis-keys.ts'
import { type RedisClient, script } from '../runtime/platform/redis.ts'

/** KEYS: samples. ARGV: digest, its rows, the most rows, seconds. */
const TAKE = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return 'repeated'
end
local taken = tonumber(ARGV[2])
for _, rows in ipairs(redis.call('HVALS', KEYS[1])) do
  taken = taken + tonumber(rows)
end
if taken > tonumber(ARGV[3]) then
  return 'refused'
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[4], 'NX')
return 'taken'`

const DAY_SECONDS = 86_400

export type SampleRows = ReturnType<typeof createSampleRows>

/**
 * Counts the rows of samples that a tenant has had verified since its first one of 24 hours, as
 * nobody pays for them. Returns whether a sample may be verified; the same one counts once, and
 * is reported once.
 */
export function createSampleRows (
  redis: RedisClient, { maxRows, onTaken }: {
    readonly maxRows: number, readonly onTaken: (rows: number) => void
  }
) {
  const take = script(redis, { name: 'take-sample', source: TAKE, numberOfKeys: 1 })
  return async (tenant: string, digest: string, rows: number): Promise<boolean> => {
    // Hash: digest of a sample -> its rows.
    const key = `samples:${taggedTenant(tenant)}`
    const outcome = await take([key], [digest, rows, maxRows, DAY_SECONDS])
    if (outcome === 'taken') onTaken(rows)
    return outcome !== 'refused'
  }
}
