import type { Log } from '../../runtime/platform/log.ts'
import { createCachedReading, type Metrics } from '../../runtime/platform/metrics.ts'
import type { HostMemory, OwnerState } from './memory.ts'
import { ownerLabel } from './policies.ts'

/** Of owners without a policy of their own, those are reported that were asked most. */
const MAX_OTHER_OWNERS = 10

type Reporting = { readonly metrics: Pick<Metrics, 'watchAll'>, readonly log: Pick<Log, 'warn'> }

/** Reports what all processes know of our egresses at the owners of mail servers. */
export function reportOwners (
  memory: Pick<HostMemory, 'owners'>, { metrics, log }: Reporting
): void {
  const states = createCachedReading(
    async () => selectOwners(await memory.owners()), { name: 'mail servers', log })
  const report = (
    name: `mailbox_egress_${'recipients_per_minute' | 'sessions' | 'resting_seconds'}`,
    read: (state: OwnerState) => number
  ) => metrics.watchAll(name, async () => (await states()).map(state =>
    ({ labels: { owner: state.owner, egress: state.egress }, value: read(state) })))
  report('mailbox_egress_recipients_per_minute', ({ rate }) => rate)
  report('mailbox_egress_sessions', ({ sessions }) => sessions)
  report('mailbox_egress_resting_seconds', ({ restMs }) => Math.ceil(restMs / 1_000))
  metrics.watchAll('mailbox_egress_recent_recipients', async () =>
    (await states()).flatMap(({ owner, egress, asked, verdicts, blocked }) => [
      { labels: { owner, egress, outcome: 'verdict' }, value: verdicts },
      { labels: { owner, egress, outcome: 'block' }, value: blocked },
      { labels: { owner, egress, outcome: 'other' }, value: asked - verdicts - blocked },
    ]))
}

/** Metrics must not have a series for each mail server of the world. */
function selectOwners (states: readonly OwnerState[]): readonly OwnerState[] {
  const hasPolicy = (owner: string) => ownerLabel(owner) === owner
  const asked = new Map<string, number>()
  for (const { owner, asked: more } of states) {
    if (!hasPolicy(owner)) asked.set(owner, (asked.get(owner) ?? 0) + more)
  }
  const others = new Set([...asked].toSorted(([, one], [, other]) => other - one)
    .slice(0, MAX_OTHER_OWNERS).map(([owner]) => owner))
  return states.filter(({ owner }) => hasPolicy(owner) || others.has(owner))
}
