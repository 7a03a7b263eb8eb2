import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdirSync, statSync } from 'node:fs'
import { promisify } from 'node:util'

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

let version: string | undefined

/** What Java says about its version. Fails with advice unless it is Java 17 or newer. */
export async function requireJava (): Promise<string> {
  if (version !== undefined) return version
  const { stderr } = await promisify(execFile)('java', ['-version']).catch(() => ({ stderr: '' }))
  const major = Number(/version "(\d+)/.exec(stderr)?.[1] ?? 0)
  if (major < 17) {
    throw new Error('Java 17 or newer is needed for Kafka and the schema registry ' +
      '(for example: sudo apt-get install openjdk-17-jre-headless).')
  }
  version = stderr
  return version
}
