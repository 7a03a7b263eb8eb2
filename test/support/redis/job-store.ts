import { createJobStore } from '../../../services/jobs/store.ts'
import { createWallet } from '../../../services/money/wallet.ts'
import { startRedis } from './redis.ts'

/** A store of jobs on a Redis of its own, and new tenants with money. */
export async function startJobStore () {
  const { redis, connect } = await startRedis()
  const wallet = createWallet(redis)
  let tenants = 0
  const fundedTenant = async (amountMicros = 1_000_000): Promise<string> => {
    const tenant = `org_${tenants += 1}.live`
    await wallet.topUp(tenant, { id: 'a', amountMicros, reason: '' })
    return tenant
  }
  return { redis, connect, wallet, store: createJobStore(redis), fundedTenant }
}
