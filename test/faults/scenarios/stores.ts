import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault, Scene } from '../fault.ts'
import type { Part } from '../../support/stacks/processes.ts'
import { lostRedis } from './lost-redis.ts'

const RECOVER_REDIS_MS = 10_000

/** From the moment a part is killed until the next request is accepted. */
async function acceptedAgain ({ log }: Scene, atMs: number): Promise<number> {
  return (await log.nextAccepted(atMs, 60_000) ?? Infinity) - atMs
}

/** Down for a while and up again. */
async function outage (part: Part, forMs: number): Promise<void> {
  await part.down()
  await sleep(forMs)
  await part.up()
}

const stateAway: Fault = {
  name: 'state-redis-away',
  kind: 'store',
  about: 'the state Redis is away for 8 s: requests are answered with 503',
  recoverWithinMs: RECOVER_REDIS_MS,
  inject: async scene => {
    const { environment, load, log } = scene
    await load.untilEnded(2)
    const before = log.answers.length
    await outage(environment.stack.part('redis-state'), 8_000)
    const upMs = Date.now()
    const during = log.answers.slice(before)
    const recoveryMs = [await acceptedAgain(scene, upMs)]
    await load.untilEnded(3)
    const unavailable = during.filter(({ status }) => status === 503).length
    const breaches = unavailable === 0 ? ['no request was answered with 503'] : []
    return { injected: 1, recoveryMs, breaches, note: `${unavailable} answers of 503` }
  },
}

const cacheAway: Fault = {
  name: 'cache-redis-away',
  kind: 'store',
  about: 'the cache Redis is away for 15 s: nothing is found there, requests and jobs go on',
  inject: async ({ environment, load, log, say }) => {
    await load.untilEnded(2)
    const part = environment.stack.part('redis-cache')
    await part.down()
    const atMs = Date.now()
    const accepted = await log.nextAccepted(atMs, 15_000)
    const ended = await load.nextEnd(atMs, 15_000)
    say(ended === undefined ? 'no job ended' : `a job ended after ${ended - atMs} ms`)
    await sleep(Math.max(0, atMs + 15_000 - Date.now()))
    await part.up()
    await load.untilEnded(3)
    const breaches = [
      ...accepted === undefined ? ['nothing was accepted without the cache'] : [],
      ...ended === undefined ? ['no job of that time ended without the cache'] : [],
    ]
    return { injected: 1, breaches }
  },
}

const clickhouseAway: Fault = {
  name: 'clickhouse-away',
  kind: 'store',
  about: 'ClickHouse is killed and away for 10 s: requests are accepted, results wait in Kafka',
  recoverWithinMs: 15_000,
  inject: async ({ environment, load, log }) => {
    await load.untilEnded(2)
    const part = environment.stack.part('clickhouse')
    await part.down()
    const atMs = Date.now()
    const accepted = await log.nextAccepted(atMs, 10_000)
    await sleep(Math.max(0, atMs + 10_000 - Date.now()))
    await part.up()
    const upMs = Date.now()
    const recoveryMs = [(await load.nextEnd(atMs, 60_000) ?? Infinity) - upMs]
    const breaches = accepted === undefined ? ['nothing was accepted without ClickHouse'] : []
    return { injected: 1, recoveryMs, breaches }
  },
}

/** A program that gets a tenth of the time. */
async function slow (part: Part, forMs: number): Promise<number> {
  let stops = 0
  for (const endsAt = Date.now() + forMs; Date.now() < endsAt; stops++) {
    part.signal('SIGSTOP')
    await sleep(900)
    part.signal('SIGCONT')
    await sleep(100)
  }
  return stops
}

const slowed = (name: string): Fault => ({
  name: `${name}-slow`,
  kind: 'store',
  about: `${name} is suspended for nine tenths of the time, for 20 s`,
  inject: async ({ environment, load }) => {
    await load.untilEnded(2)
    const injected = await slow(environment.stack.part(name), 20_000)
    await load.untilEnded(3)
    return { injected }
  },
})

const registryAway: Fault = {
  name: 'registry-away',
  kind: 'store',
  about: 'the schema registry is away for 10 s while a service starts that needs it',
  inject: async ({ environment, load }) => {
    await load.untilEnded(2)
    const part = environment.stack.part('registry')
    await part.down()
    environment.services.kill('normalize-1', 'SIGKILL')
    environment.services.kill('settle-1', 'SIGKILL')
    await sleep(10_000)
    await part.up()
    await environment.services.untilReady()
    await load.untilEnded(3)
    return { injected: 3 }
  },
}

export const stores: readonly Fault[] = [
  stateAway, cacheAway, clickhouseAway, slowed('clickhouse'), slowed('redis-state'),
  registryAway, ...lostRedis,
]
