import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { expect, it } from 'vitest'
import { closeAfterAll } from '../support/close-after-all.ts'
import { eventually } from '../support/eventually.ts'
import { messagesIn, untilConsumed } from '../support/kafka/offsets.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { startEnvironment } from '../support/stacks/environment.ts'

const environment = closeAfterAll(await startEnvironment())

/** What a job costs, as each is a few system calls in two processes. */
const MESSAGES = {
  'job.keys': 1,
  'rows.submitted.small': 1,
  'rows.normalized.small': 1,
  'rows.to-verify.small.phone-validation': 1,
  // Its input with the price, and its verdict.
  'rows.completed.small': 2,
  'rows.retry.small.phone-validation': 0,
  'jobs.settled': 1,
  // Nobody follows it.
  'jobs.events': 0,
  // The reservation, and the charge that ends it.
  'wallet.journal': 2,
}

const countMessages = async () => Object.fromEntries(await Promise.all(Object.keys(MESSAGES)
  .map(async topic => [topic, await messagesIn(environment.env, topic)] as const)))

it('a fresh job of one row is nine messages, five scripts and two reads of Redis', async () => {
  const { env, live } = environment
  let row = 0
  const runOne = async () => {
    const { id } = await live.createJob({
      service: 'phone-validation', inputs: [`+1212736${String(5_000 + row++)}`],
    })
    await untilConsumed(env, { retries: false })
    return id
  }
  const redis = openRedis(env.REDIS_STATE_URL ?? '')
  const monitor = spawn('redis-cli', ['-u', env.REDIS_STATE_URL ?? '', 'monitor'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  // Such as: 1795953056.55 [0 127.0.0.1:53354] "hexists" "ops:paused" "verify"
  const commands: string[] = []
  const watching = Promise.withResolvers<void>()
  createInterface({ input: monitor.stdout }).on('line', line => {
    if (line === 'OK') watching.resolve()
    else if (!line.includes('[0 lua]')) commands.push(line.slice(line.indexOf('] "') + 3))
  }).on('close', () => watching.reject(new Error('redis-cli does not monitor the server')))
  await watching.promise
  // What files before have left is no part of this job.
  await untilConsumed(env, { retries: false })
  // `ledger` repeats what is late on a busy machine; the first job makes what is needed once.
  await eventually(async () => {
    const before = await countMessages()
    const id = await runOne()
    const after = await countMessages()
    // What was sent before this, the monitor has seen then.
    await redis.echo(id)
    await eventually(() => expect(commands).toContain(`echo" "${id}"`))
    const names = commands.filter(command => command.includes(id))
      .map(command => command.slice(0, command.indexOf('"')).toLowerCase())
    expect({
      messages: Object.fromEntries(Object.entries(after)
        .map(([topic, count]) => [topic, count - (before[topic] ?? 0)])),
      // claim, accept, announce, tally and close.
      scripts: names.filter(name => name === 'evalsha').length,
      keys: names.filter(name => name === 'get').length,
      // By `verify`. The request reads it only if it waits for a second without an answer.
      reads: names.filter(name => name === 'hmget').length,
      others: names.filter(name => !['evalsha', 'get', 'hmget', 'echo'].includes(name)),
    }).toEqual({ messages: MESSAGES, scripts: 5, keys: 1, reads: 1, others: [] })
  })
  monitor.kill()
  redis.disconnect()
})
