import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { logPath, startChild } from '../../../deploy/local/process.ts'
import { newFolder } from '../folder.ts'

export type RedisServer = {
  /** The unix socket it listens on. */
  readonly socket: string
  readonly stop: () => Promise<void>
  /** For a process that is about to end. */
  readonly kill: () => void
}

/**
 * A redis-server on a unix socket in a temporary folder: no port to collide, nothing kept. The
 * caller stops it.
 */
export async function startRedisServer (settings: readonly string[] = []): Promise<RedisServer> {
  const folder = newFolder('redis-')
  const socket = join(folder, 's')
  return await startRedis(folder, [
    '--port', '0', '--unixsocket', socket, '--dir', folder, '--save', '', '--appendonly', 'no',
    '--maxmemory-policy', 'noeviction', ...settings,
  ])
}

/**
 * Starts redis-server with a folder that is removed when it ends.
 * @throws Error with its output if it ends instead.
 */
export async function startRedis (folder: string, args: readonly string[]): Promise<RedisServer> {
  const spec = { name: 'redis', command: 'redis-server', args, dataDir: folder }
  const server = startChild({ ...spec, ready: async () => true, graceMs: 0 })
  const output = () => readFileSync(logPath(spec), 'utf8')
  let end = ''
  const ended = server.exited.then(how => { end = how })
  while (!/[Rr]eady to accept connections|Sentinel ID is/.test(output())) {
    await Promise.race([sleep(5), ended])
    if (end !== '') throw new Error(`redis-server ended (${end}):\n${output()}`)
  }
  const kill = () => {
    server.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
  }
  return {
    socket: join(folder, 's'),
    kill,
    stop: async () => {
      server.kill('SIGKILL')
      await server.exited
      kill()
    },
  }
}
