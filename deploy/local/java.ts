import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { promisify } from 'node:util'

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

/** The name that a complete archive has. */
export const archiveName = (file: string): string => `${statSync(file).size}.jsa`

/** The folder for the archive of these jars and this Java. */
export async function archiveOf (jars: string): Promise<string> {
  const digest = createHash('sha256').update(await requireJava())
  for (const name of readdirSync(jars, { recursive: true }).map(String).toSorted()) {
    const { size, mtimeMs } = statSync(`${jars}/${name}`)
    if (name.endsWith('.jar')) digest.update(`${name} ${size} ${mtimeMs}\n`)
  }
  return `${jars}-classes-${digest.digest('hex').slice(0, 16)}`
}

let found: string | undefined

/** What Java says about its version. Fails with advice unless it is Java 17 or newer. */
export async function requireJava (): Promise<string> {
  if (found !== undefined) return found
  const { stderr } = await promisify(execFile)('java', ['-version']).catch(() => ({ stderr: '' }))
  const major = Number(/version "(\d+)/.exec(stderr)?.[1] ?? 0)
  if (major < 17) {
    throw new Error('Java 17 or newer is needed for Kafka and the schema registry ' +
      '(for example: sudo apt-get install openjdk-17-jre-headless).')
  }
  found = stderr
  return stderr
}
