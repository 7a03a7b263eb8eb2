import type { AccessOutbox } from '../accounts/access-log/access-log.ts'
import { accessMessage } from '../accounts/access-log/entry.ts'
import type { Emitter } from '../runtime/engine/emit.ts'
import type { Producer } from '../runtime/kafka/bus.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import type { Outbox } from '../money/outbox.ts'
import type { Clock } from '../runtime/platform/clock.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { startRepeating } from '../runtime/platform/retry.ts'

export type WalletShippingDeps = {
  readonly outbox: Pick<Outbox, 'pending' | 'remove'>
  readonly emitter: Pick<Emitter, 'emit'>
  readonly metrics: Pick<Metrics, 'count'>
}

/**
 * Ships those of these entries that are still in the outbox of a wallet. Returns how many of them
 * are not in it any more.
 */
export async function shipOrphans (
  { outbox, emitter, metrics }: WalletShippingDeps, tenant: string, seqs: ReadonlySet<number>
): Promise<number> {
  if (seqs.size === 0) return 0
  // Read again: their owner may have shipped them just before it committed its last messages.
  const orphans = (await outbox.pending(tenant)).filter(({ seq }) => seqs.has(seq))
  if (orphans.length === 0) return seqs.size
  failpoint('outbox.shipping')
  await emitter.emit(orphans.map(value =>
    ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
  failpoint('outbox.shipped')
  await outbox.remove(tenant, orphans.map(({ seq }) => seq))
  metrics.count('recovery_actions_total', { kind: 'entry' }, orphans.length)
  return seqs.size
}

export type AccessShippingDeps = {
  readonly outbox: AccessOutbox
  readonly codec: Pick<Codec, 'encode'>
  readonly producer: Pick<Producer, 'send'>
  /** Redis time. */
  readonly clock: Clock
  /** Only the leading ledger ships. */
  readonly isLeader: () => boolean
  readonly log: Pick<Log, 'warn'>
}

const BATCH_ENTRIES = 200
const POLL_MS = 200
/** An attempt that is refused at once can be withdrawn until then (`recordRequests`). */
const HOLD_MS = 500

/**
 * Ships the entries of the access log to their topic, oldest first. A crash before they leave the
 * outbox, or a second leader, ships them again: they then have two numbers, and one id.
 */
export async function shipAccess (
  { outbox, codec, producer, clock }: AccessShippingDeps, signal: AbortSignal
): Promise<void> {
  for (;;) {
    const pending = await outbox.oldest(BATCH_ENTRIES, clock.now() - HOLD_MS)
    if (pending.length === 0) return
    const messages = await Promise.all(pending.map(({ entry }) => accessMessage(codec, entry)))
    await producer.send(messages, signal)
    failpoint('access.shipped')
    await outbox.remove(pending)
  }
}

/** Ships in a loop while this ledger leads. A failure is logged and retried. */
export function startAccessShipping (
  deps: AccessShippingDeps
): { readonly stop: () => Promise<void> } {
  const ship = async (signal: AbortSignal) => {
    if (deps.isLeader()) await shipAccess(deps, signal)
  }
  return startRepeating(POLL_MS, ship, err => {
    deps.log.warn({ err }, 'failed to send entries of the access log to topic access.log, ' +
      'retrying; do not restart Redis until this succeeds')
  })
}
