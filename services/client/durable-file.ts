import { closeSync, fsyncSync, openSync, renameSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Replaces a file atomically and durably; only its owner can read it. After a crash the file has
 * the old or the new content. Synchronous, so no other code of this process runs in between.
 */
export function writePrivateFile (file: string, text: string): void {
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

/** Renames a file and syncs the folder, so that the new name survives a crash of the machine. */
export function renameDurably (from: string, to: string): void {
  renameSync(from, to)
  const folder = openSync(dirname(to), 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
