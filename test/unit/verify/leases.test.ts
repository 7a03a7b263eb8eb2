import { describe, expect, it } from 'vitest'
import { createLeases, type LeaseCommands } from '../../../services/verify/leases.ts'

const scope = { tenant: 'org_1.live', service: 'whatsapp', version: '2' } as const
const token = Buffer.from('00112233445566778899aabbccddeeff', 'hex')
const other = Buffer.alloc(16, 7)

function createRedis () {
  const values = new Map<string, string>()
  const calls: unknown[] = []
  const redis: LeaseCommands = {
    take: async (keys, owner, leaseMs) => {
      calls.push(leaseMs)
      for (const key of keys) if (!values.has(key)) values.set(key, owner)
      return keys.map((key) => values.get(key) === owner ? '1' : '0').join('')
    },
    release: async (keys, owner) =>
      keys.filter((key) => values.get(key) === owner && values.delete(key)).length,
  }
  return { redis, values, calls }
}

describe('leases', () => {
  it('belong to the first owner, who finds them its own again', async () => {
    const { redis, values, calls } = createRedis()
    const leases = createLeases(redis, { leaseMs: 30_000 })
    expect(await leases.take(scope, [token], 'job_1')).toEqual([true])
    expect(await leases.take(scope, [other, token], 'job_2')).toEqual([true, false])
    expect(await leases.take(scope, [token], 'job_1')).toEqual([true])
    expect(values.get('l:{org_1.live}:whatsapp:ABEiM0RVZneImaq7zN3u_w')).toBe('job_1')
    expect(calls).toEqual([30_000, 30_000, 30_000])
  })

  it('are free again once released', async () => {
    const { redis } = createRedis()
    const leases = createLeases(redis, { leaseMs: 1 })
    await leases.take(scope, [token, other], 'job_1')
    await leases.release(scope, [token], 'job_1')
    await leases.release(scope, [], 'job_1')
    expect(await leases.take(scope, [token, other], 'job_2')).toEqual([true, false])
    await leases.release(scope, [token], 'job_1')
    expect(await leases.take(scope, [token], 'job_1')).toEqual([false])
  })

  it('keep nobody from checking while Redis is down', async () => {
    const faults: unknown[] = []
    const down = async () => { throw new Error('down') }
    const leases = createLeases({ take: down, release: down },
      { leaseMs: 1, onFault: (error) => faults.push(error) })
    expect(await leases.take(scope, [token, other], 'job_1')).toEqual([true, true])
    await leases.release(scope, [token], 'job_1')
    expect(faults).toHaveLength(2)
  })
})
