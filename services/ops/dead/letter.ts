import type { RawMessage } from '../../lib/bus.ts'
import { rowsOf } from '../../lib/row-headers.ts'
import type { StageName } from '../../topology.ts'

/** A message that lies in a dead-letter topic, without its content. */
export type Letter = {
  readonly stage: StageName
  /** Where it lies: `partition:offset` of the dead-letter topic. */
  readonly place: string
  readonly reason: string
  /** NaN when nothing says so. */
  readonly deadAtMs: number
  /** Where it died. */
  readonly from: {
    readonly topic: string, readonly partition: string, readonly offset: string,
  }
  readonly tenant: string
  readonly job: string
  readonly service: string
  /** How many rows it is about, 0 when its headers do not say. */
  readonly rows: number
  readonly bytes: number
}

/** What somebody decided about a letter. */
export type Done = {
  readonly as: 'replayed' | 'discarded'
  readonly atMs: number
  /** Empty where nobody has to say why. */
  readonly why: string
}

/** A letter and all that was decided about it, oldest first. */
export type Entry = Letter & { readonly done: readonly Done[] }

/** `partition:offset` of a message. */
export function placeOf ({ partition, offset }: Pick<RawMessage, 'partition' | 'offset'>): string {
  return `${partition}:${offset}`
}

/**
 * The letter that a message of `<stage>.dead` is, known by its headers alone. What it died of
 * stands in headers that only the engine writes; the others are as the message brought them.
 */
export function letterOf (stage: StageName, raw: RawMessage): Letter {
  const { headers } = raw
  return {
    stage,
    place: placeOf(raw),
    reason: headers['dead_reason'] ?? '',
    deadAtMs: Date.parse(headers['dead_at'] ?? ''),
    from: {
      topic: headers['dead_topic'] ?? '',
      partition: headers['dead_partition'] ?? '',
      offset: headers['dead_offset'] ?? '',
    },
    tenant: headers['tenant'] ?? '',
    job: headers['job'] ?? '',
    service: headers['service'] ?? '',
    rows: rowsOf(headers),
    bytes: raw.value?.length ?? 0,
  }
}
