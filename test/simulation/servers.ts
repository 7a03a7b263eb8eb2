import type { Channels } from './channels.ts'
import type { Completion } from './completions.ts'
import type { Loss } from './loss-plan.ts'
import type { RedisLine } from './redis-line.ts'
import type { Reply } from './replies.ts'
import {
  clockCommand, fail, settle, type PendingCommand, type Scripts,
} from './simulated-redis.ts'
import type { StateLosses } from './state-loss.ts'
import type { Trace } from './trace.ts'

/** Both Redis, their channels and losses, as the loop sees them. */
export type Servers = {
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
export async function serve (
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
