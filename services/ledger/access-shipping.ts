import type { AccessOutbox } from '../access-log/access-log.ts'
import { accessMessage } from '../access-log/entry.ts'
import type { Producer } from '../kafka/bus.ts'
import type { Codec } from '../kafka/registry.ts'
import type { Clock } from '../platform/clock.ts'
import { failpoint } from '../platform/failpoint.ts'
import type { Log } from '../platform/log.ts'
import { startRepeating } from './repeat.ts'

export type ShippingDeps = {
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
  { outbox, codec, producer, clock }: ShippingDeps, signal: AbortSignal
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
export function startAccessShipping (deps: ShippingDeps): { readonly stop: () => Promise<void> } {
  const ship = async (signal: AbortSignal) => {
    if (deps.isLeader()) await shipAccess(deps, signal)
  }
  return startRepeating(POLL_MS, ship, err => {
    deps.log.warn({ err }, 'failed to send entries of the access log to topic access.log, ' +
      'retrying; do not restart Redis until this succeeds')
  })
}
