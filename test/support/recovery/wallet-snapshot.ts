import type { WalletSnapshot } from '../../../services/ledger/recovery-store.ts'
import { ZERO_AMOUNTS } from '../../../services/money/prices.ts'

/** A wallet in Redis before any movement of its money. */
export function emptyWallet (tenant: string): WalletSnapshot {
  return {
    tenant,
    run: 'r',
    seq: 0,
    amounts: ZERO_AMOUNTS,
    outbox: [],
    openJobs: [],
    trustsJournal: false,
  }
}
