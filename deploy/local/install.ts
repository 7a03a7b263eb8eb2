import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { promisify } from 'node:util'

/** The versions of what Maven downloads. */
export const POM = `${import.meta.dirname}/pom.xml`

/** Where downloaded parts are kept, so that only the first start of a version needs the network. */
function cacheDir (): string {
  const { XDG_CACHE_HOME = '' } = process.env
  return `${XDG_CACHE_HOME === '' ? `${homedir()}/.cache` : XDG_CACHE_HOME}/verification-jobs`
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
  await runQuietly('mvn', ['-B', '-q', '-f', POM, `-Dwork.directory=${folder}`, ...args], {})
}

/** Whether a command can be run. */
export async function works (command: string, args: readonly string[]): Promise<boolean> {
  return await promisify(execFile)(command, args).then(() => true, () => false)
}

/** Runs a command; rejects with the end of its output when it fails. */
export function runQuietly (command: string, args: readonly string[], env: Record<string, string>) {
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
