import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll } from 'vitest'
import { startRedisServer } from './server.ts'
import { newFolder } from '../folder.ts'

/** A Redis of one's own that keeps a file, and can end and start; its tenants stay locked. */
export async function startRestartableRedis () {
  const folder = newFolder('gate-')
  const path = join(folder, 's')
  const start = () => startRedisServer(
    ['--dir', folder, '--unixsocket', path, '--appendonly', 'yes', '--appendfsync', 'always'])
  let server = await start()
  const connections: Redis[] = []
  const connect = (): Redis => {
    const connection = new Redis({ path, maxRetriesPerRequest: 20, retryStrategy: () => 20 })
    connection.on('error', () => {})
    connections.push(connection)
    return connection
  }
  const redis = connect()
  afterAll(async () => {
    for (const connection of connections) connection.disconnect()
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  })
  return {
    redis,
    connect,
    /** The server ends, and another one runs on its files. */
    restart: async (): Promise<void> => {
      await server.stop()
      server = await start()
      await redis.ping()
    },
    /** The id of the run of the server. */
    runOf: async () => /run_id:(\w+)/.exec(await redis.info('server'))?.[1],
  }
}
