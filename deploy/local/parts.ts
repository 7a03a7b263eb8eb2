import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { installOnce, maven, POM, runQuietly, works } from './install.ts'
import { archiveName, archiveOf } from './java.ts'
import type { Access } from './access.ts'
import type { PortBook } from './ports.ts'

/** Reports progress to the person who waits. */
export type Say = (line: string) => void

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

/** The version the pom names for a part (`<kafka.version>`); the pom is their only home. */
export function readVersion (part: string): string {
  const version = new RegExp(`<${part}\\.version>([^<]+)<`).exec(readFileSync(POM, 'utf8'))?.[1]
  if (version === undefined) throw new Error(`pom.xml names no ${part}.version`)
  return version
}

/** The folder with Kafka's jars, downloaded by Maven when it is missing. */
export async function installKafka (say: Say): Promise<string> {
  const version = readVersion('kafka')
  return await installOnce(`kafka-${version}`, async (folder) => {
    say(`downloading Kafka ${version} with Maven (44 MB, once)`)
    await maven(folder, ['dependency:copy-dependencies', `-DoutputDirectory=${folder}`])
  })
}

/** The folder with the schema registry's jars, downloaded by Maven when it is missing. */
export async function installRegistry (say: Say): Promise<string> {
  const version = readVersion('registry')
  return await installOnce(`registry-${version}`, async (folder) => {
    say(`downloading the schema registry Apicurio ${version} with Maven (142 MB, once)`)
    const artifact = `io.apicurio:apicurio-registry-app:${version}:tar.gz:all`
    const target = `-DoutputDirectory=${folder}`
    await maven(folder, ['dependency:unpack', `-Dartifact=${artifact}`, target])
  })
}

/** Makes sure that `redis-server` can be started; installs the system's package if need be. */
export async function installRedis (say: Say): Promise<void> {
  if (await works('redis-server', ['--version'])) return
  if (!await works('apt-get', ['--version']) || process.getuid?.() !== 0) {
    throw new Error('redis-server is missing, and only root can install it here with apt-get. ' +
      'Install it yourself (for example: sudo apt-get install redis-server), set ' +
      'STACK_SOURCE=containers if you have a container engine, or give the addresses of a ' +
      'running stack in the environment.')
  }
  say('installing redis-server with apt-get (once)')
  const install = ['install', '-y', '--no-install-recommends', 'redis-server']
  // The package would start a server of its own; in run level 1 its script leaves that be.
  const env = { DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  await runQuietly('apt-get', install, env).catch(async () => {
    await runQuietly('apt-get', ['update'], env)
    await runQuietly('apt-get', install, env)
  })
}
