import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** All files below a folder; those that vanish meanwhile are left out. */
export const filesBelow = (folder: string): readonly string[] =>
  unlessGone(() => readdirSync(folder, { withFileTypes: true }), []).flatMap(entry => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return filesBelow(path)
    return entry.isFile() ? [path] : []
  })

/** The files below a folder that contain any of these bytes. */
export function filesWith (folder: string, wanted: readonly Buffer[]): readonly string[] {
  return filesBelow(folder).filter(path => {
    const bytes = withoutEnd(unlessGone(() => readFileSync(path), Buffer.alloc(0)))
    return wanted.some(form => bytes.includes(form))
  })
}

/** What the read gives, or the other value when the file or folder is gone by now. */
function unlessGone<T> (read: () => T, otherwise: T): T {
  try {
    return read()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return otherwise
    throw error
  }
}

const NOTHING = Buffer.alloc(65_536)

/** Without the zeros at its end: brokers make files of an index far longer than what is in them. */
function withoutEnd (bytes: Buffer): Buffer {
  let { length } = bytes
  while (length >= NOTHING.length &&
    bytes.subarray(length - NOTHING.length, length).equals(NOTHING)) length -= NOTHING.length
  return bytes.subarray(0, length)
}

/** In how many files of each store of a stack one of these is. */
export const filesOfStores = (folder: string, wanted: readonly Buffer[]) => ({
  redis: filesWith(`${folder}/redis-state`, wanted).length,
  kafka: filesWith(`${folder}/kafka/log`, wanted).length,
  clickhouse: filesWith(`${folder}/clickhouse`, wanted).length,
})
