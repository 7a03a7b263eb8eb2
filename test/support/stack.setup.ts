import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { Redis } from 'ioredis'
import type { TestProject } from 'vitest/node'
import { provision } from '../../deploy/provision.ts'
import { loadSecrets } from '../../deploy/local/launcher/secrets.ts'
import { startStack } from '../../deploy/local/stack.ts'
import { keepGatesOpen } from './gates.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Addresses and secrets, under the names services read them by. */
    stack: Record<string, string>
    /** The folder with the data and logs of the stack. */
    stackDataDir: string
  }
}

type Shared = { env: Record<string, string>, dataDir: string, end: () => Promise<void> }

/** Projects that run together share one stack; the last one to finish ends it. */
const shared = globalThis as { testStack?: { users: number, started: Promise<Shared> } }

/** Starts the infrastructure in a folder of its own, or uses the addresses in the environment. */
export default async function setup (project: TestProject): Promise<() => Promise<void>> {
  const stack = shared.testStack ??= { users: 0, started: start() }
  stack.users += 1
  const { env, dataDir, end } = await stack.started
  project.provide('stack', env)
  project.provide('stackDataDir', dataDir)
  return async () => {
    stack.users -= 1
    if (stack.users > 0) return
    delete shared.testStack
    await end()
  }
}

async function start (): Promise<Shared> {
  const dataDir = mkdtempSync(`${tmpdir()}/verification-jobs-test-`)
  const stack = await startStack({ dataDir, say: (line) => console.log(`stack: ${line}`) })
  const gates = [0, 1].map(() => new Redis(stack.addresses.REDIS_STATE_URL))
  const end = async () => {
    for (const connection of gates) connection.disconnect()
    await stack.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
  try {
    const env = { ...stack.addresses, ...loadSecrets(dataDir) }
    await provision(env)
    // Not every test has a ledger, which lets tenants in.
    const [redis, subscriber] = gates
    if (redis && subscriber) await keepGatesOpen(redis, subscriber)
    return { env, dataDir, end }
  } catch (error) {
    await end()
    throw error
  }
}
