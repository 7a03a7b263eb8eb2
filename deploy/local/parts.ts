import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { promisify } from 'node:util'

/** Reports progress to the person who waits. */
export type Say = (line: string) => void

const pomFile = `${import.meta.dirname}/pom.xml`
const run = promisify(execFile)

/** Where downloaded parts are kept, so that only the first start of a version needs the network. */
export function cacheDir (env: NodeJS.ProcessEnv = process.env): string {
  const base = env.XDG_CACHE_HOME ? env.XDG_CACHE_HOME : `${homedir()}/.cache`
  return `${base}/verification-jobs`
}

/** The version the pom names for a part (`<kafka.version>`); the pom is their only home. */
export function versionOf (part: string, pom: string = readFileSync(pomFile, 'utf8')): string {
  const version = new RegExp(`<${part}\\.version>([^<]+)<`).exec(pom)?.[1]
  if (version === undefined) throw new Error(`pom.xml names no ${part}.version`)
  return version
}

/** The folder with Kafka's jars, downloaded by Maven when it is missing. */
export async function installKafka (say: Say): Promise<string> {
  const version = versionOf('kafka')
  return await installOnce(`kafka-${version}`, async (folder) => {
    say(`downloading Kafka ${version} with Maven (44 MB, once)`)
    await maven(folder, ['dependency:copy-dependencies', `-DoutputDirectory=${folder}`])
  })
}

/** The folder with the schema registry's jars, downloaded by Maven when it is missing. */
export async function installRegistry (say: Say): Promise<string> {
  const version = versionOf('registry')
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
      'Install it yourself (for example: sudo apt-get install redis-server), or give the ' +
      'addresses of a running stack in the environment.')
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

/**
 * Fills `<cache>/<name>` by `fill` unless it is there. The work is done in a folder aside and
 * moved into place at the end, so an interrupted or doubled download leaves nothing half done.
 * Returns that folder.
 */
export async function installOnce (
  name: string, fill: (folder: string) => Promise<void>
): Promise<string> {
  const home = `${cacheDir()}/${name}`
  if (existsSync(home)) return home
  mkdirSync(cacheDir(), { recursive: true })
  const folder = mkdtempSync(`${home}.partial-`)
  try {
    await fill(folder)
    if (!existsSync(home)) renameSync(folder, home)
  } catch (error) {
    if (!existsSync(home)) throw error
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  return home
}

/** Runs a goal of Maven with the versions of the pom. Throws with advice without Maven. */
export async function maven (folder: string, args: readonly string[]): Promise<void> {
  if (!await works('mvn', ['--version'])) {
    throw new Error('Maven is needed to download Kafka and the schema registry ' +
      '(for example: sudo apt-get install maven).')
  }
  await runQuietly('mvn', ['-B', '-q', '-f', pomFile, `-Dwork.directory=${folder}`, ...args], {})
}

async function works (command: string, args: readonly string[]): Promise<boolean> {
  return await run(command, args).then(() => true, () => false)
}

function runQuietly (command: string, args: readonly string[], env: Record<string, string>) {
  return new Promise<void>((resolve, reject) => {
    const child = spawn(command, args, { env: { ...process.env, ...env } })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (data: Buffer) => { output = (output + data).slice(-4_000) })
    }
    child.once('error', reject)
    child.once('close', (code) => {
      if (code === 0) resolve()
      else reject(new Error(`${command} ${args[0]} ended with ${code}:\n${output}`))
    })
  })
}
