import { execFile, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { installOnce } from '../../../deploy/local/install.ts'
import type { Say } from '../../../deploy/local/parts.ts'
import { requireGo } from '../../support/deploy/tools.ts'

const SOURCES = `${import.meta.dirname}/transit`
const BUILD_TIMEOUT_MS = 1_200_000

/** The transit engine of Vault as a program, built from the Go module proxy when it is missing. */
export async function installTransit (say: Say): Promise<string> {
  const digest = createHash('sha256')
  for (const name of ['go.mod', 'main.go']) digest.update(readFileSync(`${SOURCES}/${name}`))
  const name = `vault-transit-${digest.digest('hex').slice(0, 16)}`
  const home = await installOnce(name, async to => {
    const go = await requireGo()
    say('building the transit engine of Vault with Go (some minutes, once)')
    const env = { ...process.env, GOFLAGS: '-mod=readonly' }
    await promisify(execFile)(go, ['build', '-o', `${to}/transit`, '.'], {
      cwd: SOURCES, env, timeout: BUILD_TIMEOUT_MS,
    })
  })
  return `${home}/transit`
}

/** What each token may do, by path: as in the policies of Vault. */
export type Tokens = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>

type State = {
  readonly sealed?: boolean
  readonly throttled?: boolean
  readonly tokens?: Tokens
}

export type Transit = {
  readonly pid: number
  readonly url: string
  /** A token that may do everything. */
  readonly admin: string
  /** Writes to a path of the engine as an administrator. */
  readonly write: (path: string, body?: object) => Promise<void>
  /** Replaces the state: neither sealed nor throttled, and no token but the administrator's. */
  readonly set: (state: State) => Promise<void>
  readonly stop: () => Promise<void>
}

/** The engine of Vault itself, behind its HTTP interface; policies and seal are of the test. */
export async function startTransit (program: string): Promise<Transit> {
  const admin = randomBytes(16).toString('hex')
  const server = spawn(program, ['transit', admin], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [url] = await once(createInterface(server.stdout), 'line') as [string]
  const send = async (method: string, path: string, body: object) => {
    const response = await fetch(`${url}${path}`, {
      method, headers: { 'x-vault-token': admin }, body: JSON.stringify(body),
    })
    if (!response.ok) throw new Error(`${path}: status ${response.status}`)
    await response.body?.cancel()
  }
  return {
    pid: server.pid ?? 0,
    url,
    admin,
    write: (path, body = {}) => send('POST', `/v1/transit/${path}`, body),
    set: state => send('PUT', '/state', state),
    stop: async () => {
      if (server.exitCode !== null || server.signalCode !== null) return
      server.kill('SIGKILL')
      await once(server, 'exit')
    },
  }
}
