import { openContact } from '../../../schemas/feeds/seal.ts'
import type { FeedContact } from '../../../schemas/types.ts'
import type { Partners } from '../../accounts/partners.ts'
import type { RawMessage } from '../../lib/bus.ts'
import { FatalError, isInfrastructure } from '../../lib/errors.ts'
import type { Codec } from '../../lib/registry.ts'
import { logicalTopic } from '../../lib/topics.ts'
import type { Wire } from '../../lib/wire.ts'
import { envelopeShown, openedShown } from './shown.ts'

export type OpenParts = {
  readonly codec: Pick<Codec, 'decode'>
  readonly wire: Pick<Wire, 'open'>
  readonly partners: Pick<Partners, 'keysOf'>
}

const UNDECODABLE = 'not decodable'
const NOTHING_SEALED = 'it carries no rows'

/**
 * The readable part of a letter, or that there is none. The error itself is not told: it may quote
 * the bytes it stumbled over.
 */
export async function readEnvelope (
  codec: Pick<Codec, 'decode'>, raw: RawMessage
): Promise<Readonly<Record<string, unknown>> | string> {
  const value = await decoded(codec, raw)
  return value === undefined ? UNDECODABLE : envelopeShown(value)
}

/**
 * The content of a letter in clear, or why it can't be had.
 * @throws FatalError when the key ring lacks the key.
 */
export async function openContent (parts: OpenParts, raw: RawMessage): Promise<unknown> {
  const origin = raw.headers['dead_topic'] ?? ''
  const partner = logicalTopic(origin)?.partner
  if (partner !== undefined) return await contactIn(parts, partner, raw)
  const opened = await parts.wire.open({ ...raw, topic: origin })
  if (opened.kind === 'dead') return `not to be opened: ${opened.reason}`
  if (opened.kind === 'skip') return `not to be opened: ${opened.why}`
  try {
    return openedShown(opened.message.rows() ?? NOTHING_SEALED)
  } catch {
    return `not to be opened: ${UNDECODABLE}`
  }
}

async function contactIn (
  { codec, partners }: OpenParts, partner: string, raw: RawMessage
): Promise<string> {
  const value = await decoded(codec, raw) as FeedContact | undefined
  if (value === undefined) return `not to be opened: ${UNDECODABLE}`
  if (value.sealed === null) return NOTHING_SEALED
  const keys = await partners.keysOf(partner)
  if (keys === undefined) return 'not to be opened: unknown_partner'
  try {
    return openContact(keys, { ...value, partner }, value.sealed)
  } catch {
    return 'not to be opened: seal_broken'
  }
}

async function decoded (
  codec: Pick<Codec, 'decode'>, { value, headers }: RawMessage
): Promise<object | undefined> {
  const topic = logicalTopic(headers['dead_topic'] ?? '')?.topic
  if (topic === undefined || value === null) return undefined
  try {
    return await codec.decode(topic, value) as object
  } catch (error) {
    if (isInfrastructure(error) || error instanceof FatalError) throw error
    return undefined
  }
}
