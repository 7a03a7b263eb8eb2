import type { AccessEntry } from '../../schemas/types.ts'
import type { OutgoingMessage } from '../kafka/bus.ts'
import type { Codec } from '../kafka/registry.ts'
import { messageKey, topicName } from '../platform/topics.ts'

/** The organization of entries that concern the whole installation. */
export const INSTALLATION = 'installation'

/**
 * Who acts: an API key, a person who signed in, a browser that signed in by a link, or an operator
 * at the command line. `id` is that of the key, the person or the session, or the name of the
 * account on the machine.
 */
export type AccessActor = {
  readonly kind: 'key' | 'person' | 'link' | 'operator'
  readonly id: string
}

/** Everything that is recorded. Entries are kept for ever, so names are only added. */
export const ACCESS_ACTIONS = [
  'organization.created', 'organization.erased', 'policy.changed',
  'person.added', 'person.changed', 'person.signed_out', 'person.removed',
  'sign_in_link.created', 'session.started', 'session.ended',
  'key.created', 'key.rolled', 'key.revoked',
  'webhook_secret.shown', 'webhook_secret.rotated', 'webhook_key.rotated',
  'webhook_endpoint.created', 'webhook_endpoint.changed', 'webhook_endpoint.deleted',
  'webhook_endpoint.secret_rotated',
  'job.cancelled', 'job.erased', 'results.previewed', 'results.downloaded', 'usage.downloaded',
  'delivery.resent',
  'balance.topped_up', 'balance.adjusted', 'balance.thawed',
  'partner.created', 'partner.rotated', 'partner.revoked',
  'keys.rotated', 'keys.rewrapped', 'access_log.exported',
  'stage.paused', 'stage.resumed', 'stage.replayed', 'cells.moved', 'journal.restored',
  'letters.opened', 'letters.replayed', 'letters.discarded',
] as const

export type AccessAction = typeof ACCESS_ACTIONS[number]

/** A privileged action, as its writer describes it. */
export type AccessEvent = {
  /** Its id, or INSTALLATION. */
  readonly organization: string
  readonly actor: AccessActor
  readonly action: AccessAction
  /** The id of what it is done to, such as a key or a job; '' if it has none yet. */
  readonly target?: string
  /** The IP address of the request, or the name of the machine of a command. */
  readonly address?: string
  /** `refused` if the actor lacks the right; `done` by default. */
  readonly outcome?: 'done' | 'refused'
  /** A few short values, without contacts and secrets. */
  readonly details?: Readonly<Record<string, string>>
}

/** An entry with its number: its position in the topic `access.log`, from 1. */
export type NumberedEntry = AccessEntry & { readonly seq: number }

/** The text of an entry that is signed and chained; no two entries share a text. */
export function accessText (entry: NumberedEntry): string {
  return JSON.stringify([
    1, entry.seq, entry.entryId, entry.at, entry.organization, entry.actorKind, entry.actor,
    entry.action, entry.target, entry.address, entry.outcome, entry.details,
  ])
}

const MAX_CHARACTERS = 200

/** The entry of an event. Longer texts are cut, so that no caller can make the log large. */
export function entryOfEvent (
  event: AccessEvent, { entryId, at }: Pick<AccessEntry, 'entryId' | 'at'>
): AccessEntry {
  const { organization, actor, action, target = '', address = '', outcome = 'done' } = event
  const details = Object.entries(event.details ?? {}).map(([name, text]) => [name, cut(text)])
  return {
    entryId,
    at,
    organization: cut(organization),
    actorKind: actor.kind,
    actor: cut(actor.id),
    action,
    target: cut(target),
    address: cut(address),
    outcome,
    details: details.length === 0 ? '' : JSON.stringify(Object.fromEntries(details)),
  }
}

function cut (text: string): string {
  return text.toWellFormed().slice(0, MAX_CHARACTERS).toWellFormed()
}

/** The message of an entry to the topic `access.log`. */
export async function accessMessage (
  codec: Pick<Codec, 'encode'>, entry: AccessEntry
): Promise<OutgoingMessage> {
  return {
    topic: topicName('access.log'),
    key: messageKey('access.log', entry),
    value: await codec.encode('access.log-value', entry),
    headers: {},
  }
}
