import type { NumberedEntry } from './entry.ts'

export const ACCESS_COLUMNS = [
  'number', 'time', 'action', 'outcome', 'actor_kind', 'actor', 'target', 'address', 'details',
  'id',
] as const

/** An entry of the access log as exports show it, by column. */
export function accessRecord (
  entry: NumberedEntry
): Readonly<Record<typeof ACCESS_COLUMNS[number], string>> {
  return {
    number: String(entry.seq),
    time: new Date(entry.at).toISOString(),
    action: entry.action,
    outcome: entry.outcome,
    actor_kind: entry.actorKind,
    actor: entry.actor,
    target: entry.target,
    address: entry.address,
    details: entry.details,
    id: entry.entryId,
  }
}
