import { mkdtempSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const IN_MEMORY = '/dev/shm'
/** What the stacks of a whole run write, with a margin; container engines give 64 MiB. */
const ROOM_BYTES = 6 * 1_024 ** 3

function roomy (): string {
  try {
    const { bavail, bsize } = statfsSync(IN_MEMORY)
    const free = Math.min(bavail * bsize, process.availableMemory())
    return free < ROOM_BYTES ? tmpdir() : IN_MEMORY
  } catch {
    return tmpdir()
  }
}

/**
 * A folder of a test, in memory if there is room. Stores write thousands of small files, which some
 * file systems create and delete slowly, and files that outlive a crash wait for disks.
 */
export const newFolder = (prefix: string): string => mkdtempSync(join(roomy(), prefix))
