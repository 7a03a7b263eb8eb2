import { closeSync, fsyncSync, openSync, renameSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Writes a file that only its owner may read, in one step that outlives a crash: whoever looks sees
 * the old content or the new one. Nothing else of this process can run in between.
 */
export function writePrivately (file: string, text: string): void {
  const next = `${file}.new`
  const handle = openSync(next, 'w', 0o600)
  try {
    writeSync(handle, text)
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
  renameDurably(next, file)
}

/** Gives a file its final name; after a crash of the machine it still has it. */
export function renameDurably (from: string, to: string): void {
  renameSync(from, to)
  const folder = openSync(dirname(to), 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
