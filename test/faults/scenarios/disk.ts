import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { execFileSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault, Scene } from '../fault.ts'
import { mountDisk, openStack } from '../stack.ts'

const FULL_FOR_MS = 8_000
const DISKS = { 'redis-state': 64, clickhouse: 256, kafka: 512 } as const

async function missing (): Promise<string | undefined> {
  const folder = mkdtempSync(`${tmpdir()}/disk-`)
  try {
    mountDisk(folder, 1)
    execFileSync('umount', [folder])
    return undefined
  } catch {
    return 'a disk can be mounted by root only'
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const PIECE = Buffer.alloc(1_048_576)

/** Fills the disk. */
function fill (file: string): void {
  const ballast = openSync(file, 'w')
  try {
    for (let length = PIECE.length; length >= 1;) {
      try {
        writeSync(ballast, PIECE, 0, length)
      } catch {
        length = Math.floor(length / 2)
      }
    }
  } finally {
    closeSync(ballast)
  }
}

/** A disk that is full for a while; a program that ends because of it is restarted. */
async function fillDisk ({ environment, load, log, say }: Scene, name: string): Promise<number> {
  await load.untilEnded(2)
  const part = environment.stack.part(name)
  const ballast = `${environment.stack.dataDir}/${name}/ballast`
  fill(ballast)
  const refill = setInterval(() => fill(`${ballast}-2`), 500)
  await sleep(FULL_FOR_MS)
  clearInterval(refill)
  rmSync(ballast)
  rmSync(`${ballast}-2`, { force: true })
  const atMs = Date.now()
  say(part.isAlive() ? `${name} lived on` : `${name} ended of it`)
  if (!part.isAlive()) await part.up()
  const accepted = await log.nextAccepted(atMs, 60_000) ?? Infinity
  const ended = await load.nextEnd(atMs, 60_000) ?? Infinity
  return Math.max(accepted, ended) - atMs
}

const diskFull: Fault = {
  name: 'disk-full',
  kind: 'disk',
  about: 'the disks of the state Redis, of ClickHouse and of Kafka are full for 8 s',
  recoverWithinMs: 30_000,
  missing,
  stack: () => openStack({ disks: DISKS }),
  inject: async scene => {
    const recoveryMs: number[] = []
    for (const name of Object.keys(DISKS)) recoveryMs.push(await fillDisk(scene, name))
    return { injected: recoveryMs.length, recoveryMs, note: Object.keys(DISKS).join(', ') }
  },
}

export const disks: readonly Fault[] = [diskFull]
