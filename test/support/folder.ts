import { accessSync, constants, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const IN_MEMORY = '/dev/shm'

function roomy (): string {
  try {
    accessSync(IN_MEMORY, constants.W_OK)
    return IN_MEMORY
  } catch {
    return tmpdir()
  }
}

/** A folder of a test, in memory if there is one: files that outlive a crash wait for disks. */
export const newFolder = (prefix: string): string => mkdtempSync(join(roomy(), prefix))
