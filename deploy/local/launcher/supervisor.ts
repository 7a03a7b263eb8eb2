import { rmSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { secretsFile } from '../../../services/runtime/platform/command-environment.ts'
import { openPortBook, type PortBook } from '../ports.ts'
import { startStack, type Stack } from '../stack.ts'
import { loadSecrets, type Secrets } from './secrets.ts'
import { dnsEnvironment, receiverEnvironment, type ReceiverSettings } from './settings.ts'
import { startServices, type Services } from './services.ts'
import { writePrivately } from '../json-file.ts'
import { demoFile, type Demo, stackState } from './state.ts'
import type { Say } from '../parts.ts'
import type { Prepare } from './prepare.ts'
import { layoutOn, type Layout, type Processes } from './layout.ts'
import type { Scale } from './scale.ts'

export type SupervisorOptions = {
  readonly dataDir: string
  readonly stages: readonly string[]
  readonly prepare: Prepare
  /** Tests start no stack. */
  readonly start?: typeof startStack
}

/** What `up` asks for; what it leaves out stays as it is. */
export type Wanted = {
  readonly processes?: Processes | undefined
  readonly scale?: Scale | undefined
  /** A service whose processes are ended and started again, if they run. */
  readonly restart?: string | undefined
}

export type Supervisor = {
  /** Brings up what is not running, waits until all is ready and refreshes stack.json. */
  readonly up: (wanted: Wanted, say: Say) => Promise<void>
  readonly down: () => Promise<void>
  readonly isUp: () => boolean
}

type Running = {
  readonly stack: Stack
  readonly services: Services
  readonly demo: Demo
  /** What the services started with. */
  readonly secrets: Secrets
  readonly receivers: ReceiverSettings
}

/** Keeps one stack and its services running; requests are served one after the other. */
export function createSupervisor (options: SupervisorOptions): Supervisor {
  const ports = openPortBook(options.dataDir)
  const stateFile = `${options.dataDir}/stack.json`
  let running: Running | undefined
  let layout: Layout = {}
  let queue: Promise<unknown> = Promise.resolve()

  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const done = queue.then(work)
    queue = done.catch(() => undefined)
    return done
  }

  const writeState = () => {
    if (running) writePrivately(stateFile, stackState(running))
  }

  return {
    up: ({ restart, ...wanted }, say) => inTurn(async () => {
      const next = { ...layout, ...wanted }
      if (running) running = await refresh(running, { ...options, restart, say }, next)
      else running = await startAll({ ...options, ports, layout: next, say, onChange: writeState })
      layout = next
      writeState()
      say(`ready: ${running.services.list().map(({ name }) => name).join(', ')}`)
    }),
    down: () => inTurn(async () => {
      const stopped = running
      running = undefined
      await stopped?.services.stop()
      await stopped?.stack.stop()
      rmSync(stateFile, { force: true })
    }),
    isUp: () => running !== undefined,
  }
}

type RefreshOptions = SupervisorOptions & Pick<Wanted, 'restart'> & { readonly say: Say }

async function refresh (
  running: Running, options: RefreshOptions, layout: Layout
): Promise<Running> {
  if (!isDeepStrictEqual(running.secrets, loadSecrets(options.dataDir))) {
    throw new Error(`${secretsFile(options.dataDir)} has changed, and the services run with what ` +
      'it was before: end the stack with "npm run down", then start it again.')
  }
  await running.stack.untilReady()
  const { stack, secrets, services } = running
  const demo = await options.prepare(
    buildEnvironment(stack, secrets), options.dataDir, options.say)
  if (options.restart !== undefined) {
    const ended = await services.end(options.restart)
    options.say(`ended ${ended.join(', ') || `nothing: no process runs ${options.restart}`}`)
  }
  await services.setLayout(layoutOn(stack, layout))
  return { ...running, demo }
}

function buildEnvironment (stack: Stack, secrets: Secrets): Record<string, string> {
  return { ...stack.addresses, ...stack.trust, ...secrets }
}

type StartOptions = SupervisorOptions & {
  readonly ports: PortBook
  readonly layout: Layout
  readonly say: Say
  readonly onChange: () => void
}

async function startAll (options: StartOptions): Promise<Running> {
  const { dataDir, ports, say, start = startStack } = options
  const dns = dnsEnvironment(process.env, say)
  const receivers = receiverEnvironment(process.env)
  const stack = await start({ dataDir, ports, say })
  try {
    const secrets = loadSecrets(dataDir)
    const env = buildEnvironment(stack, secrets)
    // Containers keep nothing: the organization of an earlier stack is gone.
    if (stack.source === 'containers') rmSync(demoFile(dataDir), { force: true })
    say('preparing topics, schemas, tables and the demonstration organization')
    const demo = await options.prepare(env, dataDir, say)
    say(`starting the services ${options.stages.join(', ')}`)
    const services = await startServices({
      ...options,
      layout: layoutOn(stack, options.layout),
      env: { ...env, ...await dns, ...receivers },
      envByStage: stack.envByStage,
    })
    return { stack, services, demo, secrets, receivers }
  } catch (error) {
    await stack.stop()
    throw error
  }
}
