import { mkdirSync } from 'node:fs'
import { connect } from 'node:net'
import { installRedis } from './parts.ts'
import type { PartOptions } from './part.ts'
import type { ProcessSpec } from './process.ts'

/** State is money: every write is on disk before its answer, and nothing is ever evicted. */
const stateSettings = [
  '--save', '', '--appendonly', 'yes', '--appendfsync', 'always',
  '--maxmemory-policy', 'noeviction',
] as const

/**
 * The cache may forget: bounded, the least used leaves first. What it knows was paid for, so it is
 * written down every hour and at the end.
 */
const cacheSettings = [
  '--save', '3600 1', '--appendonly', 'no', '--maxmemory', '256mb',
  '--maxmemory-policy', 'allkeys-lru',
] as const

const settingsOf = { state: stateSettings, cache: cacheSettings } as const

/** One of the two Redis servers. */
export async function redisPart (
  options: PartOptions & { readonly role: 'state' | 'cache' }
): Promise<{ spec: ProcessSpec, url: string }> {
  await installRedis(options.say)
  const name = `redis-${options.role}`
  const port = await options.ports.port(name)
  const folder = `${options.dataDir}/${name}`
  mkdirSync(folder, { recursive: true })
  return {
    url: `redis://127.0.0.1:${port}`,
    spec: {
      name,
      command: 'redis-server',
      args: [
        '--bind', '127.0.0.1', '--port', String(port), '--dir', folder,
        ...settingsOf[options.role],
      ],
      dataDir: options.dataDir,
      ready: () => answersPing(port),
      graceMs: 10_000,
    },
  }
}

/** A server that still loads its file accepts connections but answers PING with an error. */
function answersPing (port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'))
    socket.setTimeout(1_000, () => socket.destroy())
    socket.once('data', (data) => {
      resolve(data.toString().startsWith('+PONG'))
      socket.destroy()
    })
    socket.once('error', () => resolve(false))
    socket.once('close', () => resolve(false))
  })
}
