import type { Redis } from 'ioredis'
import { createDeliveries } from '../../services/jobs/deliveries.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { createRecoveryStore } from '../../services/ledger/recovery-store.ts'
import { createOutbox } from '../../services/money/outbox.ts'
import { createWallet } from '../../services/money/wallet.ts'

/** What keeps the state of tenants in Redis. */
export const stateModules = (redis: Redis) => ({
  wallet: createWallet(redis),
  store: createJobStore(redis),
  outbox: createOutbox(redis),
  deliveries: createDeliveries(redis),
  recoveryStore: createRecoveryStore(redis),
})
