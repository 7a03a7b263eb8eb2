import type { Journal } from '../../../schemas/types.ts'
import type { WalletSnapshot } from '../../../services/ledger/recovery-store.ts'
import { createLedgerStage } from '../../../services/ledger/stage.ts'
import { ZERO_AMOUNTS } from '../../../services/money/prices.ts'
import type { Emission } from '../../../services/runtime/engine/stage.ts'
import { incoming } from '../stage-messages.ts'

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

/** What `ledger` emits when it reads this entry at this time, its copy aside. */
export async function eventsCausedBy (
  entry: Journal, nowMs: number
): Promise<readonly Emission<'jobs.events'>[]> {
  const dropped = { append: async () => {} }
  const stage = createLedgerStage({
    journal: dropped,
    keys: dropped,
    access: dropped,
    clock: { now: () => nowMs },
    batch: 10,
    copyAfterMs: 0,
  })
  const message = incoming('wallet.journal', entry, { rows: () => undefined, offset: 0 })
  const decisions = await stage.decide([message], new AbortController().signal)
  return decisions.flatMap(decision => 'emits' in decision ? decision.emits : []) as
    readonly Emission<'jobs.events'>[]
}
