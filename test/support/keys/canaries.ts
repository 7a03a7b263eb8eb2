import type { Clickhouse } from '../../../services/runtime/platform/clickhouse.ts'
import { filesBelow, filesWith } from '../bytes.ts'

/** The forms a text may be stored in: as it is, encoded, and in parts that identify it. */
export function formsOf (text: string): readonly Buffer[] {
  const digits = text.replace(/\D/g, '')
  const isPhone = /^[\d+() -]+$/.test(text)
  const texts = isPhone
    ? [text, `+${digits}`, digits.slice(-10), text.replace(/^\+\d+ /, '')]
    : [text, text.toLowerCase(), ...text.includes('@') ? [text.split('@')[0] ?? ''] : []]
  return texts.flatMap(one => [
    Buffer.from(one),
    Buffer.from(one, 'utf16le'),
    Buffer.from(Buffer.from(one).toString('hex')),
    ...base64Cores(one),
    Buffer.from(encodeURIComponent(one)),
  ])
}

/** What base64 makes of the text at each of the three alignments, without the edges. */
function base64Cores (text: string): readonly Buffer[] {
  return [0, 1, 2].map(shift => {
    const encoded = Buffer.from('\0'.repeat(shift) + text).toString('base64').replace(/=+$/, '')
    return Buffer.from(encoded.slice(4, -2))
  }).filter(core => core.length >= 8)
}

/** The bytes of a secret that is written in base64 behind a prefix, and its forms as text. */
export function formsOfSecret (text: string): readonly Buffer[] {
  return [...formsOf(text), Buffer.from(text.replace(/^whsec_/, ''), 'base64')]
}

/** The secrets of a local stack stand in a file of their own, not at rest with its data. */
const KEPT_APART = /\/secrets\.json$/

/** Files below the folders that show any of it. */
export function findings (
  folders: readonly string[], wanted: readonly Buffer[]
): readonly string[] {
  return folders.flatMap(folder => filesWith(folder, wanted)).filter(path => !KEPT_APART.test(path))
}

/** The amount of data to search, so that an empty search is noticed. */
export function searched (folders: readonly string[]): number {
  return folders.flatMap(filesBelow).length
}

/** All that ClickHouse has of an organization, as text: on disk it is compressed. */
export async function dumpOf (clickhouse: Clickhouse, org: string): Promise<string> {
  const tables = ['result_blocks', 'jobs', 'journal', 'deliveries']
  const texts = await Promise.all(tables.map(async table => {
    const query = `SELECT * FROM ${table} WHERE startsWith(tenant, {org:String})`
    return (await clickhouse.rows(query, { org })).map(row => JSON.stringify(row)).join('\n')
  }))
  return texts.join('\n')
}
