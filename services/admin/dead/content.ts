import { openContact } from '../../../schemas/feeds/seal.ts'
import type { FeedContact } from '../../../schemas/types.ts'
import type { Partners } from '../../accounts/partners.ts'
import type { RawMessage } from '../../runtime/kafka/bus.ts'
import { isOutageOrFatal } from '../../runtime/platform/errors.ts'
import type { Codec } from '../../runtime/kafka/registry.ts'
import { logicalTopic } from '../../runtime/platform/topics.ts'
import type { MessageCodec } from '../../runtime/engine/stage.ts'

type OpenDeps = {
  readonly codec: Codec
  readonly messageCodec: Pick<MessageCodec, 'decode'>
  readonly partners: Pick<Partners, 'keysOf'>
}

const UNDECODABLE = 'not decodable'
const NO_ROWS = 'the message contains no rows'
const unopened = (reason: string) => `cannot be opened: ${reason}`

/**
 * Returns the unencrypted fields of a letter, or that it cannot be decoded. Hides the decoding
 * error, because it may quote bytes of the message.
 */
export async function readEnvelope (
  codec: Pick<Codec, 'decode'>, raw: RawMessage
): Promise<Readonly<Record<string, unknown>> | string> {
  const value = await decode(codec, raw)
  return value === undefined ? UNDECODABLE : formatEnvelope(value)
}

/**
 * Returns the decrypted content of a letter, or why it cannot be opened.
 * @throws FatalError when the key ring lacks the key.
 */
export async function openContent (deps: OpenDeps, raw: RawMessage): Promise<unknown> {
  const origin = raw.headers['dead_topic'] ?? ''
  const partner = logicalTopic(origin)?.partner
  if (partner !== undefined) return await openFeedContact(deps, partner, raw)
  const opened = await deps.messageCodec.decode({ ...raw, topic: origin })
  if (opened.kind === 'dead') return unopened(opened.reason)
  if (opened.kind === 'skip') return unopened(opened.why)
  try {
    return formatContent(opened.message.rows() ?? NO_ROWS)
  } catch {
    return unopened(UNDECODABLE)
  }
}

async function openFeedContact (
  { codec, partners }: OpenDeps, partner: string, raw: RawMessage
): Promise<string> {
  const value = await decode(codec, raw) as FeedContact | undefined
  if (value === undefined) return unopened(UNDECODABLE)
  if (value.sealed === null) return NO_ROWS
  const keys = await partners.keysOf(partner)
  if (keys === undefined) return unopened('unknown_partner')
  try {
    return openContact(keys, { ...value, partner }, value.sealed)
  } catch {
    return unopened('seal_broken')
  }
}

async function decode (
  codec: Pick<Codec, 'decode'>, { value, headers }: RawMessage
): Promise<object | undefined> {
  const topic = logicalTopic(headers['dead_topic'] ?? '')?.topic
  if (topic === undefined || value === null) return undefined
  try {
    return await codec.decode(topic, value) as object
  } catch (error) {
    if (isOutageOrFatal(error)) throw error
    return undefined
  }
}

const MAX_CHARACTERS = 200

/**
 * Makes an untrusted text safe for a terminal: replaces control characters, which could move the
 * cursor or change colors, and truncates it.
 */
export function safeText (text: string): string {
  const plain = text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\u{fffd}')
  return plain.length > MAX_CHARACTERS ? `${plain.slice(0, MAX_CHARACTERS)}…` : plain
}

/** Headers that only the pipeline writes. They identify rows and never contain contacts. */
const PIPELINE_HEADERS = new Set([
  'tenant', 'job', 'service', 'lane', 'chunk', 'chunks', 'firstRow', 'chunkRows', 'totalRows',
  'dead_reason', 'dead_stage', 'dead_topic', 'dead_partition', 'dead_offset', 'dead_at',
])

/** Formats headers. Shows only the size of headers that the pipeline does not write. */
export function formatHeaders (
  headers: Readonly<Record<string, string>>
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).map(([name, text]) => [
    safeText(name),
    PIPELINE_HEADERS.has(name) ? safeText(text) : formatSize(Buffer.byteLength(text)),
  ]))
}

/** The reference that a partner gives to a contact may be the contact itself. */
const PARTNER_FIELDS = new Set(['reference'])

/** Formats the fields of a decoded message. Shows only the size of bytes and lists. */
function formatEnvelope (value: object): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [
    name,
    PARTNER_FIELDS.has(name) ? formatSize(Buffer.byteLength(String(field))) : formatField(field),
  ]))
}

/** Formats decrypted rows completely, except bytes. */
function formatContent (value: unknown): unknown {
  if (value instanceof Uint8Array) return formatSize(value.length)
  if (Array.isArray(value)) return value.map(formatContent)
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([name, field]) => [name, formatContent(field)]))
  }
  return typeof value === 'bigint' ? String(value) : value
}

function formatField (field: unknown): unknown {
  if (field instanceof Uint8Array) return formatSize(field.length)
  if (Array.isArray(field)) return `${field.length} items`
  if (field instanceof Date) return field.toISOString()
  if (typeof field === 'object' && field !== null) return formatEnvelope(field)
  return typeof field === 'string' ? safeText(field) : formatContent(field)
}

const formatSize = (bytes: number) => `${bytes} bytes`
