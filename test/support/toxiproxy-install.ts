import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { installOnce, type Say } from '../../deploy/local/parts.ts'

const run = promisify(execFile)
/** The newest version that a Go of 1.17 builds, so that what systems bring along is enough. */
const VERSION = 'v2.5.0'
const PROGRAM = `github.com/Shopify/toxiproxy/v2/cmd/server@${VERSION}`
const APT_PACKAGES = ['golang-go']
const BUILD_TIMEOUT_MS = 300_000
/** Where Go's own installer puts it, which not every shell has in its path. */
const GO_PLACES = ['go', '/usr/local/go/bin/go', '/usr/lib/go/bin/go']

/**
 * The program of toxiproxy, in the folder where downloads are kept; built when it is missing.
 * Throws with advice when there is no Go to build it with.
 */
export async function installToxiproxy (say: Say): Promise<string> {
  const home = await installOnce(`toxiproxy-${VERSION}`, async (folder) => {
    const go = await requireGo(say)
    say(`building toxiproxy ${VERSION} with Go (10 MB of sources, once)`)
    const env = { ...process.env, GOBIN: folder, GOTOOLCHAIN: 'local', GOFLAGS: '' }
    await run(go, ['install', PROGRAM], { env, timeout: BUILD_TIMEOUT_MS })
  })
  return `${home}/server`
}

/** A Go that builds it; installs the system's one if need be. */
async function requireGo (say: Say): Promise<string> {
  const found = await usableGo()
  if (found !== undefined) return found
  const advice = 'The faults of slow and cut links need toxiproxy, which is built with Go 1.17 ' +
    'or newer. Install Go (for example: sudo apt-get install golang-go).'
  if (process.getuid?.() !== 0) throw new Error(advice)
  say(`installing ${APT_PACKAGES.join(' and ')} with apt-get (once)`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const install = () =>
    run('apt-get', ['install', '-y', '--no-install-recommends', ...APT_PACKAGES], { env })
  await install()
    .catch(async () => {
      await run('apt-get', ['update'], { env })
      await install()
    })
    .catch((error: Error) => { throw new Error(advice, { cause: error }) })
  const installed = await usableGo()
  if (installed === undefined) throw new Error(advice)
  return installed
}

async function usableGo (): Promise<string | undefined> {
  for (const place of GO_PLACES) {
    const text = await run(place, ['env', 'GOVERSION']).then(({ stdout }) => stdout, () => '')
    const [, major = 0, minor = 0] = /go(\d+)\.(\d+)/.exec(text) ?? []
    if (Number(major) > 1 || Number(minor) >= 17) return place
  }
  return undefined
}
