import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { installOnce } from '../../../deploy/local/install.ts'
import type { Say } from '../../../deploy/local/parts.ts'
import { findGo, installPackages } from './system-tools.ts'

const run = promisify(execFile)
/** The newest version that a Go of 1.17 builds, so that what systems bring along is enough. */
const VERSION = 'v2.5.0'
const PROGRAM = `github.com/Shopify/toxiproxy/v2/cmd/server@${VERSION}`
const OLDEST_GO_MINOR = 17
const BUILD_TIMEOUT_MS = 300_000

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
  const found = await findGo(OLDEST_GO_MINOR)
  if (found !== undefined) return found
  const advice = 'The faults of slow and cut links need toxiproxy, which is built with Go 1.17 ' +
    'or newer. Install Go (for example: sudo apt-get install golang-go).'
  await installPackages({ packages: ['golang-go'], advice, say })
  const installed = await findGo(OLDEST_GO_MINOR)
  if (installed === undefined) throw new Error(advice)
  return installed
}
