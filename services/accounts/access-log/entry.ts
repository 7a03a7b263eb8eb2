import type { AccessEntry } from '../../../schemas/types.ts'
import type { OutgoingMessage } from '../../runtime/kafka/bus.ts'
import type { Codec } from '../../runtime/kafka/registry.ts'
import { messageKey, topicName } from '../../runtime/platform/topics.ts'

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

/** What concerns an organization. Entries are kept for ever, so names are only added. */
export const ORGANIZATION_ACTIONS = [
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
  'partner.created', 'partner.rotated', 'partner.revoked', 'keys.rotated', 'access_log.exported',
] as const

/** What operators do to the installation; organizations need no filter for it. */
type InstallationAction =
  | 'keys.rewrapped'
  | 'stage.paused' | 'stage.resumed' | 'stage.replayed' | 'journal.restored'
  | 'letters.opened' | 'letters.replayed' | 'letters.discarded'

/** Everything that is recorded. */
export type AccessAction = typeof ORGANIZATION_ACTIONS[number] | InstallationAction

/**
 * An action has two entries: `attempted` before it, and its result after it. `refused` is an action
 * that was not done: the actor lacks the right, or asks for something invalid. `incomplete` is a
 * command that met no error, but left something undone or found something wrong. `failed` is an
 * action that met an error, and may be done in part. Without a second entry the result is not
 * known.
 */
type AccessOutcome = 'attempted' | AccessResult
export type AccessResult = 'done' | 'refused' | 'incomplete' | 'failed'

/** A privileged action, as its writer describes it. */
export type AccessEvent = {
  /** Its id, or INSTALLATION. */
  readonly organization: string
  readonly actor: AccessActor
  readonly action: AccessAction
  /** The id of what it is done to, such as a key or a job; '' for the organization itself. */
  readonly target?: string
  /** The IP address of the request, or the name of the machine of a command. */
  readonly address?: string
  /** `done` by default. */
  readonly outcome?: AccessOutcome
  /** A few short values, without contacts and secrets. */
  readonly details?: Readonly<Record<string, string>>
  /** A new one by default. */
  readonly entryId?: string
}

/** What is known of an action only while it is done, such as the id of a new key. */
export type AccessDescription = Pick<AccessEvent, 'target' | 'details'> & {
  /** Set by an action that ends well without doing anything. */
  readonly outcome?: 'refused'
}

/** The id of the entry with the result of an attempt. */
export const resultIdOf = (attemptId: string): string => `${attemptId}${RESULT_SUFFIX}`

export const RESULT_SUFFIX = ':result'

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
/** The ids of some hundred jobs; a path has at most a hundred characters. */
const MAX_TARGET_CHARACTERS = 10_000

/** The entry of an event. Longer texts are cut, so that no caller can make the log large. */
export function entryOfEvent (
  event: AccessEvent & { readonly entryId: string }, at: number
): AccessEntry {
  const {
    entryId, organization, actor, action, target = '', address = '', outcome = 'done',
  } = event
  const details = Object.entries(event.details ?? {}).map(([name, text]) => [name, cut(text)])
  return {
    entryId,
    at,
    organization: cut(organization),
    actorKind: actor.kind,
    actor: cut(actor.id),
    action,
    target: cut(target, MAX_TARGET_CHARACTERS),
    address: cut(address),
    outcome,
    details: details.length === 0 ? '' : JSON.stringify(Object.fromEntries(details)),
  }
}

function cut (text: string, max = MAX_CHARACTERS): string {
  return text.toWellFormed().slice(0, max).toWellFormed()
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
