import { mkdirSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const IN_MEMORY = '/dev/shm'
/** What the stacks of a whole run write, with a margin; container engines give 64 MiB. */
const ROOM_BYTES = 6 * 1_024 ** 3
/** Where a run of tests has its folders in memory, which its workers read from the environment. */
const OF_RUN = 'TEST_FOLDERS_IN_MEMORY'
const PREFIX = 'verification-jobs-test-'

/**
 * A folder of a test, in memory if there is room, which goes with its run. Stores write thousands
 * of small files, which some file systems create and delete slowly, and files that outlive a crash
 * wait for disks.
 */
export const newFolder = (prefix: string): string =>
  mkdtempSync(join(process.env[OF_RUN] ?? roomy(), prefix))

/** Removes all files of a folder. */
export function emptyFolder (folder: string): void {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder)
}

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
 * Gives a run of tests folders of its own, for `newFolder` and for temporary files of all its
 * processes, and removes them when this process exits. Also removes those of runs that were killed.
 */
export function ownFoldersOfRun (): void {
  const places = [tmpdir(), roomy()]
  for (const place of new Set(places)) removeAbandoned(place)
  const [temporary = '', inMemory = ''] = places.map(place =>
    mkdtempSync(join(place, `${PREFIX}${process.pid}-`)))
  Object.assign(process.env, { TMPDIR: temporary, [OF_RUN]: inMemory })
  process.on('exit', () => {
    for (const folder of [temporary, inMemory]) remove(folder)
  })
}

function removeAbandoned (place: string): void {
  for (const name of readdirSync(place)) {
    const pid = new RegExp(`^${PREFIX}(\\d+)-`).exec(name)?.[1]
    if (pid !== undefined && !isAlive(Number(pid))) remove(join(place, name))
  }
}

function isAlive (pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

const remove = (folder: string) => rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
