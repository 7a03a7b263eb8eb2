import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { TestProject } from 'vitest/node'
import { loadSecrets } from '../../../deploy/local/launcher/secrets.ts'
import { endLeftovers } from '../../../deploy/local/launcher/state.ts'
import { startStack } from '../../../deploy/local/stack.ts'
import { provision } from '../../../deploy/provision.ts'
import { shipAccounts } from '../../../services/accounts/account-topics.ts'
import { createKafkaBus } from '../../../services/runtime/kafka/kafka-bus.ts'
import { createCodec, registrySource } from '../../../services/runtime/kafka/registry.ts'
import { sleep } from '../../../services/runtime/platform/retry.ts'
import { newFolder } from '../folder.ts'
import { messageMacOf } from '../keys/signed.ts'
import { listen } from '../listen.ts'
import { untilGroupsEmpty } from '../kafka/offsets.ts'
import { openRedis } from '../redis/open-redis.ts'
import { keepUnlockedAt } from '../redis/unlock.ts'
import type { TestStack } from './stack.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Where the run hands out its stacks: `GET /<worker slot>` answers with a `TestStack`. */
    stacksUrl: string
  }
}

type Started = {
  readonly stack: TestStack
  /** For the next worker of the slot, when one has ended. */
  readonly clear: () => Promise<void>
  readonly end: () => Promise<void>
}
type Stacks = { readonly url: string, readonly end: () => Promise<void> }

/** Projects of one run share its stacks; the last one to finish ends them. */
const shared = globalThis as { testStacks?: { users: number, started: Promise<Stacks> } }

/**
 * Serves the stacks of a test run: one for each worker slot, so that test files run side by side
 * without sharing topics, consumer groups, keys or tables. A stack starts when the first file of
 * its slot asks for it and serves all later files of that slot.
 */
export default async function setup (project: TestProject): Promise<() => Promise<void>> {
  const stacks = shared.testStacks ??= { users: 0, started: serveStacks() }
  stacks.users += 1
  const { url, end } = await stacks.started
  project.provide('stacksUrl', url)
  return async () => {
    stacks.users -= 1
    if (stacks.users > 0) return
    delete shared.testStacks
    await end()
  }
}

async function serveStacks (): Promise<Stacks> {
  const folder = newFolder('verification-jobs-test-')
  const slots = new Map<string, Promise<Started>>()
  const server = createServer((request, response) => {
    const slot = request.url ?? ''
    const used = slots.get(slot)
    const started = used ?? start(`${folder}${slot}`)
    slots.set(slot, started)
    started.then(async running => {
      if (used !== undefined) await running.clear()
      return running
    }).then(
      ({ stack }) => response.end(JSON.stringify(stack)),
      error => response.writeHead(500).end(String(error instanceof Error ? error.stack : error)))
  })
  const port = await listen(server)
  const end = async () => {
    server.close()
    const ended = [...slots.values()].map(started => started.then(({ end }) => end(), () => {}))
    await Promise.all(ended)
    rmSync(folder, { recursive: true, force: true })
  }
  return { url: `http://127.0.0.1:${port}`, end }
}

async function start (dataDir: string): Promise<Started> {
  const servicesDir = `${dataDir}/services`
  mkdirSync(servicesDir, { recursive: true })
  const stackDir = `${dataDir}/stack`
  const running = await startStack({
    dataDir: stackDir, say: line => console.log(`stack: ${line}`),
  })
  let stopUnlocking = () => {}
  let stopShipping = async () => {}
  // Services that a worker kept for its files end with it; without setpriv they are ended here.
  const endServices = () => {
    for (const name of readdirSync(servicesDir)) endLeftovers(`${servicesDir}/${name}`)
  }
  const end = async () => {
    stopUnlocking()
    await stopShipping()
    endServices()
    await running.stop()
  }
  try {
    const env = { ...running.addresses, ...loadSecrets(stackDir) }
    await provision(env)
    // Not every test runs a ledger, which unlocks the wallets of tenants.
    stopUnlocking = await keepUnlockedAt(running.addresses.REDIS_STATE_URL)
    stopShipping = keepShippingKeys(env)
    // They were killed: groups have them as members and Redis lists their root keys for a while.
    const clear = async () => {
      endServices()
      const redis = openRedis(running.addresses.REDIS_STATE_URL)
      await redis.del('processes:root-keys').finally(() => redis.disconnect())
      await untilGroupsEmpty(env)
    }
    return { stack: { env, dataDir: stackDir, servicesDir }, clear, end }
  } catch (error) {
    await end()
    throw error
  }
}

const SHIP_EVERY_MS = 20

/**
 * Ships accounts and new keys of organizations, as ledger does, for tests without one; the answer
 * ends it.
 */
function keepShippingKeys (
  env: Readonly<Record<string, string | undefined>>
): () => Promise<void> {
  const redis = openRedis(env.REDIS_STATE_URL ?? '')
  const bus = createKafkaBus({
    brokers: (env.KAFKA_BROKERS ?? '').split(','),
    clientId: 'test-keys',
    mac: messageMacOf(env as Record<string, string>),
    onFatal: () => {},
  })
  const codec = createCodec(registrySource({ SCHEMA_REGISTRY_URL: env.SCHEMA_REGISTRY_URL ?? '' }))
  const deps = { redis, codec, accountsProducer: bus.producer('test-keys') }
  const stopping = new AbortController()
  const shipping = (async () => {
    while (!stopping.signal.aborted) {
      // A store may be down for a test; the next round ships what is left.
      await shipAccounts(deps, stopping.signal).catch(() => {})
      await sleep(SHIP_EVERY_MS, stopping.signal).catch(() => {})
    }
  })()
  return async () => {
    stopping.abort()
    await shipping
    redis.disconnect()
    await bus.close()
  }
}
