import type { Redis } from 'ioredis'
import { createHash } from 'node:crypto'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { OUTCOMES_CHANNEL } from '../../services/jobs/job-record.ts'
import { LOCKED_TENANTS_CHANNEL } from '../../services/money/redis-keys.ts'
import { eventLoop } from '../../services/runtime/platform/limits.ts'
import { Loop, type Question, type Timer } from './loop.ts'
import {
  type Channels, clockCommand, createScripts, fail, openChannels, openRedisLine,
  type PendingCommand, type RedisLine, type Reply, type Scripts, settle, SimulatedRedis,
} from './redis.ts'
import {
  type Completion, createStateLosses, type Loss, type LossKind, type StateLosses,
} from './state-loss.ts'

/** Unix sockets of two Redis without other clients. */
export type Sockets = { readonly state: string, readonly cache: string }

/** Two real Redis, and a loop in which the seed decides when each of their commands is executed. */
export type Environment = {
  /** Runs an action and all it starts; the digest is of every command, its moment and order. */
  readonly run: <T>(seed: number, action: () => Promise<T>) => Promise<T>
  /** A connection of its own to the Redis with the state, or with the cache. */
  readonly connect: (server: keyof Sockets, client: string) => Redis
  /** A connection that listens to channels. */
  readonly subscriber: () => Redis
  /** The ends of the Redis with the state; none comes that was not planned in the run. */
  readonly losses: StateLosses
  /** Digest of all commands of the last run, in their order, and of their moments. */
  readonly trace: () => string
  readonly close: () => void
}

/** Opens the environment of a process; it replaces the clock, the timers and Math.random. */
export async function openEnvironment (sockets: Sockets): Promise<Environment> {
  const servers = await openServers(sockets)
  const { channels, losses, trace, lines } = servers
  const loop = loopOver(servers)
  replaceGlobals(loop)
  return {
    run: async (seed, action) => {
      begin(servers)
      eventLoop.clear()
      return await loop.run(seed, action)
    },
    connect: connector(servers, loop.ask),
    subscriber: channels.subscriber,
    losses,
    trace: trace.text,
    close: () => { for (const one of [channels, ...Object.values(lines)]) one.close() },
  }
}

async function openServers ({ state, cache }: Sockets): Promise<Servers> {
  const channels = await openChannels(state, [OUTCOMES_CHANNEL, LOCKED_TENANTS_CHANNEL])
  const lines = { state: await openRedisLine(state), cache: await openRedisLine(cache) }
  const losses = createStateLosses(lines.state)
  return { lines, channels, losses, scripts: createScripts(), trace: createTrace() }
}

function loopOver (servers: Servers): Loop<PendingCommand> {
  const loop: Loop<PendingCommand> = new Loop<PendingCommand>(async (batch, nowMs) => {
    const { answers, again } = await serve(servers, batch, nowMs)
    loop.askAgain(again)
    return answers
  })
  return loop
}

function begin ({ scripts, channels, losses, trace }: Servers): void {
  scripts.forget()
  channels.clear()
  losses.begin()
  trace.begin()
}

/** A client that connects again gets its existing connection. */
function connector (
  { lines, scripts }: Servers, ask: Loop<PendingCommand>['ask']
): Environment['connect'] {
  const clients = new Map<string, SimulatedRedis>()
  return (server, who) => {
    const client = `${server} ${who}`
    const known = clients.get(client) ??
      new SimulatedRedis({ line: lines[server], client, scripts, ask })
    clients.set(client, known)
    return known
  }
}

const require = createRequire(import.meta.url)
const crypto = require('node:crypto') as Record<string, unknown>
const timers = require('node:timers/promises') as Record<string, unknown>

type AnyLoop = Pick<Loop<Question>, 'isRunning' | 'nowMs' | 'chance' | 'turn' | 'after' | 'cancel'>
type Callback = (...args: unknown[]) => void
type Options = { readonly signal?: AbortSignal }

/**
 * While the loop runs, time and chance of this process are the loop's: its clock, timers, turns and
 * random bytes. For a process that does nothing but simulate.
 */
function replaceGlobals (loop: AnyLoop): void {
  const replace = replacer(loop)
  for (const clock of [Date, performance]) replace(clock, { now: () => loop.nowMs() })
  replace(Math, { random: () => loop.chance() })
  replace(globalThis, timersOf(loop))
  const { clearTimeout } = globalThis
  globalThis.clearTimeout = ((handle: unknown) => {
    const timer = simulated.get(handle as object)
    if (timer === undefined) clearTimeout(handle as NodeJS.Timeout)
    else loop.cancel(timer)
  }) as never
  replace(timers, pausesOf(loop))
  const fill = (bytes: Uint8Array) => bytes.map(() => Math.floor(loop.chance() * 256))
  replace(crypto, { randomBytes: (size: number) => Buffer.from(fill(new Uint8Array(size))) })
  replace(globalThis.crypto, {
    getRandomValues: (bytes: Uint8Array) => {
      bytes.set(fill(bytes))
      return bytes
    },
  })
  syncBuiltinESMExports()
}

const timersOf = (loop: AnyLoop) => ({
  setTimeout: (action: Callback, ms = 0, ...args: unknown[]) =>
    handleOf(loop, loop.after(ms, () => action(...args))),
  setImmediate: (action: Callback, ...args: unknown[]) => { loop.turn(() => action(...args)) },
  setInterval: () => {
    throw new Error('an interval would never end: a simulated part must not need one')
  },
})

const pausesOf = (loop: AnyLoop) => ({
  setTimeout: (ms: number, value: unknown, { signal }: Options = {}) =>
    waited(signal, resolve => {
      const timer = loop.after(ms, () => resolve(value))
      return () => loop.cancel(timer)
    }),
  setImmediate: (value: unknown, { signal }: Options = {}) =>
    waited(signal, resolve => {
      loop.turn(() => resolve(value))
      return () => {}
    }),
})

const simulated = new WeakMap<object, Timer>()

/** What `setTimeout` returns; the loop does not wait for one that was unreferenced. */
function handleOf (loop: AnyLoop, timer: Timer): object {
  const hold = (isHeld: boolean) => {
    timer.isHeld = isHeld
    return handle
  }
  const handle = {
    ref: () => hold(true),
    unref: () => hold(false),
    hasRef: () => timer.isHeld,
    [Symbol.dispose]: () => loop.cancel(timer),
  }
  simulated.set(handle, timer)
  return handle
}

type Functions = Readonly<Record<string, unknown>>

/** Puts functions in the place of those of an owner, for as long as the loop runs. */
const replacer = (loop: AnyLoop) => (owner: object, functions: Functions): void => {
  for (const [name, simulatedOne] of Object.entries(functions)) {
    const own = owner as Record<string, (...args: unknown[]) => unknown>
    const real = own[name] as (...args: unknown[]) => unknown
    own[name] = function (this: unknown, ...args) {
      const chosen = loop.isRunning() ? simulatedOne as typeof real : real
      return chosen.apply(this, args)
    }
  }
}

/** A promise of something to come that is called off by the signal. */
function waited (
  signal: AbortSignal | undefined,
  begin: (resolve: (value: unknown) => void) => () => void
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason)
    const callOff = () => {
      cancel()
      reject(new DOMException('The operation was aborted', 'AbortError'))
    }
    const cancel = begin(value => {
      signal?.removeEventListener('abort', callOff)
      resolve(value)
    })
    signal?.addEventListener('abort', callOff, { once: true })
  })
}

/** Both Redis, their channels and losses, as the loop sees them. */
type Servers = {
  readonly lines: { readonly state: RedisLine, readonly cache: RedisLine }
  readonly scripts: Scripts
  readonly channels: Channels
  readonly losses: StateLosses
  readonly trace: Trace
}

/** The outcome of a batch of commands; those without a completion are answered. */
type Outcome = {
  readonly replies: Map<PendingCommand, Reply>
  readonly completions: Map<PendingCommand, Completion>
}

type Served = {
  readonly answers: readonly (() => void)[]
  readonly again: readonly PendingCommand[]
}

/** Executes commands; returns what happens once each is answered, and the commands to resend. */
async function serve (
  servers: Servers, batch: readonly PendingCommand[], nowMs: number
): Promise<Served> {
  const { trace, lines } = servers
  trace.note(batch, nowMs)
  const outcome: Outcome = { replies: new Map(), completions: new Map() }
  for (const line of Object.values(lines)) {
    const pending = batch.filter(one => one.line === line)
    if (pending.length > 0) await put(servers, { line, pending, nowMs, outcome })
  }
  const isAgain = (one: PendingCommand) => outcome.completions.get(one) === 'again'
  const answers = batch.filter(one => !isAgain(one)).map(one => () => answer(one, outcome))
  return { answers: [...answers, ...await heard(servers, batch)], again: batch.filter(isAgain) }
}

function answer (one: PendingCommand, { replies, completions }: Outcome): void {
  if (completions.get(one) === 'fail') fail(one)
  else settle(one, replies.get(one) ?? null)
}

/** What a script publishes is delivered after its own answer, and before anything else happens. */
async function heard (
  { scripts, channels }: Servers, batch: readonly PendingCommand[]
): Promise<readonly (() => void)[]> {
  const isSaid = batch.some(({ command }) => scripts.publishes(command))
  return isSaid ? await channels.heard() : []
}

type Put = {
  readonly line: RedisLine
  readonly pending: readonly PendingCommand[]
  readonly nowMs: number
  readonly outcome: Outcome
}

/** Sends commands to a server, which may end in between. */
async function put (
  servers: Servers, { line, pending, nowMs, outcome: { replies, completions } }: Put
): Promise<void> {
  const { lines, losses, scripts } = servers
  const loss = line === lines.state ? await losses.next() : undefined
  const executed = loss === undefined ? pending.length : losses.cut(pending.length)
  const commands = pending.slice(0, executed)
  const answers = await exchange(line, commands, { nowMs, scripts, runId: losses.runId() })
  for (const [index, one] of commands.entries()) replies.set(one, answers[index] ?? null)
  if (loss === undefined) return
  await lose(servers, loss)
  const cut = losses.completionsOf(pending, executed)
  for (const [one, completion] of cut) completions.set(one, completion)
}

type Exchange = {
  readonly nowMs: number
  readonly runId: string
  readonly scripts: Scripts
}

/**
 * The answers to commands, in their order. Scripts read the loop's clock, which a server that lost
 * everything has lost as well.
 */
async function exchange (
  line: RedisLine, pending: readonly PendingCommand[], { nowMs, runId, scripts }: Exchange
): Promise<readonly Reply[]> {
  await scripts.load(line)
  const clock = clockCommand(nowMs, runId)
  const commands: (string | Buffer)[] = [clock]
  const places: number[] = []
  for (const { command } of pending) {
    places.push(commands.length)
    commands.push(command.toWritable())
    if (command.name.startsWith('flush')) commands.push(clock)
  }
  const answers = await line.exchange(commands)
  return places.map(place => answers[place] ?? null)
}

/** Subscribers miss what was published just before their connection ended. */
async function lose ({ losses, trace, channels, scripts }: Servers, loss: Loss): Promise<void> {
  await losses.strike(loss)
  trace.lost(loss.kind)
  await channels.miss()
  scripts.forget()
}

/** A digest of all that happens in a run, in its order: two runs of a seed have the same. */
type Trace = {
  readonly begin: () => void
  readonly note: (batch: readonly PendingCommand[], nowMs: number) => void
  readonly lost: (kind: LossKind) => void
  readonly text: () => string
}

/** Nothing has happened yet. Digests of scripts are left out: they change with every comment. */
function createTrace (): Trace {
  let hash = createHash('sha1')
  const note: Trace['note'] = (batch, nowMs) => {
    for (const { client, command } of batch) {
      hash.update(`${nowMs} ${client} ${command.name} `)
      const isScript = command.name.toUpperCase() === 'EVALSHA'
      for (const word of command.args.slice(isScript ? 1 : 0)) hash.update(word)
    }
  }
  return {
    note,
    begin: () => { hash = createHash('sha1') },
    lost: kind => { hash.update(`lost: ${kind} `) },
    text: () => hash.copy().digest('hex'),
  }
}
