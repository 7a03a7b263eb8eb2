import { chmodSync, readFileSync, renameSync, writeFileSync } from 'node:fs'

/** Writes a file that only its owner reads, in one step: a reader sees the old or the new one. */
export function writePrivately (file: string, value: unknown): void {
  writeFileSync(`${file}.new`, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 })
  chmodSync(`${file}.new`, 0o600)
  renameSync(`${file}.new`, file)
}

/** The value of a JSON file, or undefined when there is none that can be read. */
export function readJson<T> (file: string): T | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return undefined
  }
}
