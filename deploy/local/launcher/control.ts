import { createHash } from 'node:crypto'
import { rmSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Say } from '../parts.ts'
import { holdName } from '../ports.ts'
import type { Supervisor, Wanted } from './supervisor.ts'

/** One line of an answer: progress, or how it ended. */
type Line = { readonly say: string } | { readonly error: string } | { readonly done: true }

/**
 * Where the supervisor of a data folder listens. The path of a socket has to be short, so it
 * is in the system's folder for temporary files under a name made from the data folder.
 */
export function toSocketPath (dataDir: string): string {
  const name = createHash('sha256').update(dataDir).digest('hex').slice(0, 16)
  return `${tmpdir()}/verification-jobs-${name}.sock`
}

/** Whether this process may be the supervisor of the data folder, of which there is one. */
export function becomeOnly (dataDir: string): Promise<boolean> {
  return holdName(toSocketPath(dataDir))
}

/** Lets commands reach the supervisor; `afterDown` runs when `down` was answered. */
export function serveControl (
  dataDir: string, supervisor: Supervisor, afterDown: () => void
): Promise<Server> {
  const server = createServer((incoming, response) => {
    obey(supervisor, incoming, response).then((command) => {
      if (command !== 'up') afterDown()
    }, () => response.destroy())
  })
  rmSync(toSocketPath(dataDir), { force: true })
  const mask = process.umask(0o077)
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(toSocketPath(dataDir), () => {
      process.umask(mask)
      resolve(server)
    })
  })
}

/** Returns `up`, `down`, or `failed` when a first start failed and nothing is left running. */
async function obey (
  supervisor: Supervisor, incoming: IncomingMessage, response: ServerResponse
): Promise<'up' | 'down' | 'failed'> {
  const send = (line: Line) => { response.write(`${JSON.stringify(line)}\n`) }
  const isDown = incoming.url === '/down'
  try {
    const wanted = JSON.parse(await text(incoming)) as Wanted
    if (isDown) await supervisor.down()
    else await supervisor.up(wanted, (say) => { console.log(say); send({ say }) })
    send({ done: true })
    response.end()
    return isDown ? 'down' : 'up'
  } catch (error) {
    // The whole of an error could quote an address with its password.
    console.error(error instanceof Error ? error.stack : String(error))
    send({ error: error instanceof Error ? error.message : String(error) })
    response.end()
    return supervisor.isUp() ? 'up' : 'failed'
  }
}

type Order = { readonly name: 'up' | 'down', readonly wanted?: Wanted }

/** Sends a command to the supervisor and waits for its end. False when none listens. */
export async function command (dataDir: string, order: Order, say: Say): Promise<boolean> {
  const answer = await send(dataDir, order)
  if (!answer) return false
  for await (const line of createInterface({ input: answer })) {
    const message = JSON.parse(line) as Line
    if ('say' in message) say(message.say)
    if ('error' in message) throw new Error(message.error)
    if ('done' in message) return true
  }
  throw new Error(`The supervisor ended before it was done; see ${dataDir}/logs/supervisor.log`)
}

function send (dataDir: string, order: Order): Promise<IncomingMessage | undefined> {
  return new Promise((resolve, reject) => {
    const sent = request({
      socketPath: toSocketPath(dataDir), path: `/${order.name}`, method: 'POST',
    })
    sent.once('response', resolve)
    sent.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ECONNREFUSED') resolve(undefined)
      else reject(error)
    })
    sent.end(JSON.stringify(order.wanted ?? {}))
  })
}

/** Waits until `condition` holds, asking ten times a second; false when time is up. */
export async function waitUntil (
  condition: () => boolean | Promise<boolean>, timeoutMs: number
): Promise<boolean> {
  const giveUpAt = performance.now() + timeoutMs
  while (performance.now() < giveUpAt) {
    if (await condition()) return true
    await sleep(100)
  }
  return await condition()
}
