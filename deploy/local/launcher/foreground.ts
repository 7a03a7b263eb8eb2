import { rmSync } from 'node:fs'
import { bringUp } from './client.ts'
import { becomeOnly, command, serveControl, socketOf } from './control.ts'
import { prepareStack } from './prepare.ts'
import { SERVICES, type Processes } from './layout.ts'
import { readJson, type StackState } from './state.ts'
import { createSupervisor } from './supervisor.ts'
import type { Say } from '../parts.ts'

/** A running stack with its services, as a command in the foreground holds it. */
export type Foreground = {
  readonly state: StackState
  /** Resolves at Ctrl-C or SIGTERM, and when another command has ended the stack. */
  readonly untilInterrupted: Promise<void>
  /** Ends what this command started; a stack that ran before goes on. */
  readonly end: () => Promise<void>
}

/** Uses the stack that runs in a folder, or runs one inside this process until `end`. */
export async function runInForeground (
  dataDir: string, processes: Processes | undefined, say: Say
): Promise<Foreground> {
  const interrupted = Promise.withResolvers<void>()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => interrupted.resolve())
  }
  const end = await isRunning(dataDir)
    ? await useRunning(dataDir, processes, say)
    : await runHere(dataDir, { processes, say, interrupt: interrupted.resolve })
  const state = readJson<StackState>(`${dataDir}/stack.json`)
  if (state === undefined) throw new Error(`${dataDir}/stack.json can't be read`)
  return { state, untilInterrupted: interrupted.promise, end }
}

async function isRunning (dataDir: string): Promise<boolean> {
  const state = readJson<StackState>(`${dataDir}/stack.json`)
  return state !== undefined && await command(dataDir, { name: 'up' }, () => {})
}

async function useRunning (
  dataDir: string, processes: Processes | undefined, say: Say
): Promise<() => Promise<void>> {
  say('using the stack that runs already')
  await bringUp(dataDir, { processes }, say)
  return async () => {}
}

/** Other commands reach this one as they reach a supervisor in the background. */
async function runHere (
  dataDir: string, { processes, say, interrupt }: {
    readonly processes: Processes | undefined, readonly say: Say, readonly interrupt: () => void,
  }
): Promise<() => Promise<void>> {
  if (!await becomeOnly(dataDir)) {
    throw new Error(`another command is starting or running the stack in ${dataDir}`)
  }
  const supervisor = createSupervisor({ dataDir, stages: SERVICES, prepare: prepareStack })
  const control = await serveControl(dataDir, supervisor, interrupt)
  await supervisor.up({ processes }, say)
  return async () => {
    control.close()
    rmSync(socketOf(dataDir), { force: true })
    say('ending the services and the stack')
    await supervisor.down()
  }
}
