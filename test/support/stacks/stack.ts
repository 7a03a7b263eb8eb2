import { inject } from 'vitest'

/** The infrastructure that the test files of a worker slot run on, one file after the other. */
export type TestStack = {
  /** Addresses and secrets, under the names that services read them by. */
  readonly env: Record<string, string>
  /** The folder with the data and logs of the stack. */
  readonly dataDir: string
  /** The folder in which services started by tests keep theirs; removed when the run ends. */
  readonly servicesDir: string
}

const worker = globalThis as { testStack?: TestStack }

/** Resolves with the stack of this worker's slot; starts it when this file is the first. */
export async function openStack (): Promise<TestStack> {
  if (worker.testStack !== undefined) return worker.testStack
  const answer = await fetch(`${inject('stacksUrl')}/${process.env['VITEST_POOL_ID'] ?? '1'}`)
  if (!answer.ok) throw new Error(`the stack of this worker did not start: ${await answer.text()}`)
  worker.testStack = await answer.json() as TestStack
  return worker.testStack
}

/** The stack of this worker. Every file of a project with `worker.ts` has one. */
export function testStack (): TestStack {
  if (worker.testStack === undefined) {
    throw new Error('no stack here: add test/support/stacks/worker.ts to its setupFiles')
  }
  return worker.testStack
}

/** Addresses and secrets of the stack of this worker. */
export const stackEnv = (): Record<string, string> => testStack().env
