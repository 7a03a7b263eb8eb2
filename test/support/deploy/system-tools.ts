import { execFile } from 'node:child_process'
import { homedir } from 'node:os'
import { promisify } from 'node:util'
import type { Say } from '../../../deploy/local/parts.ts'

const run = promisify(execFile)
/** Where Go's own installer puts it, which not every shell has in its path. */
const GO_PLACES = ['go', '/usr/local/go/bin/go', '/usr/lib/go/bin/go']

type Packages = {
  readonly packages: readonly string[]
  /** What is missing without them, and what to do where they can't be installed. */
  readonly advice: string
  readonly say: Say
}

/** Installs packages of the system, which only root can; throws with the advice otherwise. */
export async function installPackages ({ packages, advice, say }: Packages): Promise<void> {
  if (process.getuid?.() !== 0) throw new Error(advice)
  say(`installing ${packages.join(' and ')} with apt-get (once)`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const install = () =>
    run('apt-get', ['install', '-y', '--no-install-recommends', ...packages], { env })
  await install()
    .catch(async () => {
      await run('apt-get', ['update'], { env })
      await install()
    })
    .catch((error: Error) => { throw new Error(advice, { cause: error }) })
}

/** A Go of 1.`oldestMinor` or newer; undefined where there is none. */
export async function findGo (oldestMinor: number): Promise<string | undefined> {
  for (const place of GO_PLACES) {
    const text = await run(place, ['env', 'GOVERSION']).then(({ stdout }) => stdout, () => '')
    const [, major = 0, minor = 0] = /go(\d+)\.(\d+)/.exec(text) ?? []
    if (Number(major) > 1 || Number(minor) >= oldestMinor) return place
  }
  return undefined
}

/** The folder of `installOnce`, for what must be in a certain place in it. */
export function cacheFolder (): string {
  const { XDG_CACHE_HOME = '' } = process.env
  return `${XDG_CACHE_HOME === '' ? `${homedir()}/.cache` : XDG_CACHE_HOME}/verification-jobs`
}
