import { existsSync, readdirSync } from 'node:fs'
import { archiveName, archiveOf } from './java.ts'
import type { Access } from './access.ts'
import type { Say } from './parts.ts'
import type { PortBook } from './ports.ts'

/** What every part of the embedded stack is made from. */
export type PartOptions = {
  readonly dataDir: string
  readonly ports: PortBook
  readonly say: Say
  /** Of a stack with TLS and passwords; everybody of this machine is let in without it. */
  readonly access?: Access | undefined
}

/**
 * Options of every Java part: a small heap, the quick compiler only and the collector with the
 * least overhead, because a part starts often and works little; out of memory ends it, since a
 * restarted part is better than one that limps. `jars` is the folder with its programs.
 */
export async function javaArgs (heapMegabytes: number, jars: string): Promise<readonly string[]> {
  return [
    `-Xmx${heapMegabytes}m`, '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC',
    '-XX:+ExitOnOutOfMemoryError', '-Djava.awt.headless=true',
    ...sharingArgs(await archiveOf(jars)),
  ]
}

/**
 * Maps the loaded classes of an earlier start, which halves the next one. Java compares the archive
 * with its own version, the jars and a checksum, and starts without it if anything differs; only
 * a file that is too short would end it, so its name has its size.
 */
function sharingArgs (folder: string): readonly string[] {
  if (!existsSync(folder)) return []
  const name = readdirSync(folder).find(name => name.endsWith('.jsa')) ?? ''
  const archive = `${folder}/${name}`
  if (name !== archiveName(archive)) return []
  return [`-XX:SharedArchiveFile=${archive}`, '-Xshare:auto', '-XX:+VerifySharedSpaces']
}
