import { randomInt } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { readJson } from './json-file.ts'

/**
 * Ports are taken below the range from which the system takes the ports of outgoing connections:
 * a client that reconnects to a part which is just being restarted could otherwise be given that
 * part's own port, connect to itself and keep the part from coming back.
 */
const LOWEST_PORT = 20_000
const MAX_PORT = 32_000

/** Remembers which port each name was given, so that addresses survive a restart. */
export type PortBook = { readonly port: (name: string) => Promise<number> }

/** True when no process listens on the port at 127.0.0.1. */
function isFree (port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

/**
 * Whether this process has a name for itself until it ends. On Linux a socket of that name is bound
 * without a file, which the kernel gives to one process only and takes back at its end; elsewhere
 * every process has it.
 */
export function holdName (name: string): Promise<boolean> {
  if (process.platform !== 'linux') return Promise.resolve(true)
  const lock = createServer()
  return new Promise((resolve) => {
    lock.once('error', () => resolve(false))
    lock.listen(`\0${name}`, () => resolve(true))
    lock.unref()
  })
}

/**
 * A port at 127.0.0.1 that is free now, is none of `taken` and is reserved for this process: before
 * its server listens, another stack on this machine could choose the same one.
 */
export async function freePort (taken: ReadonlySet<number> = new Set()): Promise<number> {
  for (;;) {
    const port = randomInt(LOWEST_PORT, MAX_PORT)
    const isMine = !taken.has(port) && await isFree(port) &&
      await holdName(`verification-jobs-port-${port}`)
    if (isMine) return port
  }
}

/**
 * The ports of one data folder, kept in its file `ports.json`. A remembered port that somebody
 * else uses meanwhile is replaced by a free one.
 */
export function openPortBook (dataDir: string): PortBook {
  mkdirSync(dataDir, { recursive: true })
  const file = `${dataDir}/ports.json`
  const remembered = readJson<Record<string, number>>(file) ?? {}
  const chosen = new Map<string, number>()
  let queue: Promise<unknown> = Promise.resolve()

  async function choose (name: string): Promise<number> {
    const earlier = chosen.get(name)
    if (earlier !== undefined) return earlier
    const taken = new Set([...Object.values(remembered), ...chosen.values()])
    const old = remembered[name]
    const port = old !== undefined && await isFree(old) ? old : await freePort(taken)
    chosen.set(name, port)
    remembered[name] = port
    writeFileSync(file, JSON.stringify(remembered, null, 2))
    return port
  }

  return {
    port: (name) => {
      const choice = queue.then(() => choose(name))
      queue = choice.catch(() => undefined)
      return choice
    },
  }
}
