import type { Journal } from '../../../schemas/types.ts'
import { createLedgerStage } from '../../../services/ledger/stage.ts'
import type { Emission } from '../../../services/runtime/engine/stage.ts'
import { incoming } from '../stage-messages.ts'

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
