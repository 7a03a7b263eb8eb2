import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { promisify } from 'node:util'
import type { Say } from '../../../deploy/local/parts.ts'
import { cacheFolder, installPackages } from './system-tools.ts'

const run = promisify(execFile)
const PACKAGES = ['python3', 'python3-venv']
const INSTALL_TIMEOUT_MS = 150_000

export type PythonPackages = {
  readonly name: string
  /** A file of requirements by exact version. */
  readonly requirements: string
  /** Begins the error where there is no Python to install them with. */
  readonly purpose: string
}

/**
 * The Python of an environment that holds these packages, in the folder where downloads are kept;
 * made when it is missing. Throws with advice when there is no Python to make it with.
 */
export async function installPython (
  { name, requirements, purpose }: PythonPackages, say: Say
): Promise<string> {
  const python = await requirePython(purpose, say)
  const text = readFileSync(requirements, 'utf8')
  const digest = createHash('sha256').update(`${python}\n${text}`).digest('hex')
  const home = `${cacheFolder()}/${name}-${digest.slice(0, 16)}`
  if (existsSync(home)) return `${home}/bin/python`
  say(`installing ${name} with pip (once)`)
  mkdirSync(cacheFolder(), { recursive: true })
  // Made aside and moved into place, so that an interrupted installation leaves nothing half done.
  const folder = mkdtempSync(`${home}.partial-`)
  try {
    await run('python3', ['-m', 'venv', folder])
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check']
    await run(`${folder}/bin/python`, [...pip, '-r', requirements], { timeout: INSTALL_TIMEOUT_MS })
    if (!existsSync(home)) renameSync(folder, home)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  return `${home}/bin/python`
}

/** The version of a Python that can make environments; installs the system's one if need be. */
async function requirePython (purpose: string, say: Say): Promise<string> {
  const found = await usablePython()
  if (found !== undefined) return found
  const advice = `${purpose} needs Python 3.10 or newer with venv. Install it (for example: sudo ` +
    'apt-get install python3 python3-venv).'
  await installPackages({ packages: PACKAGES, advice, say })
  const installed = await usablePython()
  if (installed === undefined) throw new Error(advice)
  return installed
}

async function usablePython (): Promise<string | undefined> {
  const script = 'import sys, venv, ensurepip; assert sys.version_info >= (3, 10); ' +
    'print(sys.base_prefix, sys.version)'
  return await run('python3', ['-c', script]).then(({ stdout }) => stdout.trim(), () => undefined)
}
