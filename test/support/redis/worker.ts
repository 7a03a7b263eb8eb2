import { Redis } from 'ioredis'
import { ACCOUNTS_RUN_KEY } from '../../../services/accounts/records.ts'
import { startRedisServer } from './server.ts'
import { MARK_COMPARED_LUA } from './unlock.ts'

const server = await startRedisServer()
process.on('exit', server.kill)

/** A Redis with accounts, one for all test files of this worker, which empty it. */
export const workerRedis = new Redis({ path: server.socket })

/** Removes everything; no account is locked after that. Commands sent later come later. */
export async function emptyRedis (): Promise<void> {
  await Promise.all([
    workerRedis.flushall(), workerRedis.eval(MARK_COMPARED_LUA, 1, ACCOUNTS_RUN_KEY),
  ])
}
