import { indexes } from '../../lib/bitmap.ts'
import { placeOfHeaders } from '../../records/place.ts'
import type { Entry } from './letter.ts'

const MOST_CHARACTERS = 200

/**
 * A text that somebody else wrote, for a terminal: without the characters that move the cursor or
 * colour the screen, and not longer than a line or two.
 */
export function safeText (text: string): string {
  const plain = text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\u{fffd}')
  return plain.length > MOST_CHARACTERS ? `${plain.slice(0, MOST_CHARACTERS)}…` : plain
}

/** What a list tells of a letter. */
export function summaryOf (entry: Entry, nowMs: number) {
  const { stage, place, from, rows, bytes, deadAtMs, done } = entry
  const last = done.at(-1)
  return {
    stage,
    letter: place,
    reason: safeText(entry.reason),
    deadAt: timeOf(deadAtMs),
    ageSeconds: Number.isNaN(deadAtMs) ? null : Math.max(0, Math.round((nowMs - deadAtMs) / 1_000)),
    tenant: safeText(entry.tenant),
    job: safeText(entry.job),
    service: safeText(entry.service),
    rows,
    bytes,
    from: safeText(`${from.topic} ${from.partition}:${from.offset}`),
    done: last === undefined
      ? null
      : { as: last.as, at: timeOf(last.atMs), why: safeText(last.why), times: done.length },
  }
}

export type Summary = ReturnType<typeof summaryOf>

/** The rows of the job that a message is about, counted from 1, for example `1-200, 205`. */
export function rowRanges (headers: Readonly<Record<string, string>>): string {
  const known = placeOfHeaders(headers)
  if (known === undefined) return 'not named'
  const { firstRow } = known.place
  const ranges: [number, number][] = []
  for (const index of indexes(known.rows)) {
    const row = firstRow + index + 1
    const last = ranges.at(-1)
    if (last?.[1] === row - 1) last[1] = row
    else ranges.push([row, row])
  }
  return ranges.map(([from, to]) => from === to ? `${from}` : `${from}-${to}`).join(', ')
}

/** Headers that the pipeline itself writes and that name rows, never contacts. */
const NAMED = new Set([
  'tenant', 'job', 'service', 'lane', 'chunk', 'chunks', 'firstRow', 'chunkRows', 'totalRows',
  'dead_reason', 'dead_stage', 'dead_topic', 'dead_partition', 'dead_offset', 'dead_at',
])

/** Headers for people; of one that the pipeline does not write only its size, as in a feed. */
export function headersShown (
  headers: Readonly<Record<string, string>>
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).map(([name, text]) =>
    [safeText(name), NAMED.has(name) ? safeText(text) : sizeOf(Buffer.byteLength(text))]))
}

/** What a partner calls a contact may be the contact. */
const OF_PARTNERS = new Set(['reference'])

/** The readable part of a decoded message: of bytes and lists only how many there are. */
export function envelopeShown (value: object): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(value).map(([name, field]) =>
    [name, OF_PARTNERS.has(name) ? sizeOf(Buffer.byteLength(String(field))) : fieldShown(field)]))
}

/** Opened rows for people, complete but for bytes, which say nothing to anybody. */
export function openedShown (value: unknown): unknown {
  if (value instanceof Uint8Array) return sizeOf(value.length)
  if (Array.isArray(value)) return value.map(openedShown)
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, openedShown(one)]))
  }
  return typeof value === 'bigint' ? String(value) : value
}

/** An ISO time, or null where none is known. */
export function timeOf (ms: number): string | null {
  return Number.isNaN(ms) ? null : new Date(ms).toISOString()
}

function fieldShown (field: unknown): unknown {
  if (field instanceof Uint8Array) return sizeOf(field.length)
  if (Array.isArray(field)) return `${field.length} items`
  if (field instanceof Date) return field.toISOString()
  if (typeof field === 'object' && field !== null) return envelopeShown(field)
  return typeof field === 'string' ? safeText(field) : openedShown(field)
}

const sizeOf = (bytes: number) => `${bytes} bytes`
