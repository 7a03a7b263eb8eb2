import type { Channels } from './channels.ts'
import { exchange } from './exchange.ts'
import type { Fate } from './fates.ts'
import type { Loss } from './loss-plan.ts'
import type { RedisLine } from './redis-line.ts'
import type { Reply } from './replies.ts'
import { fail, settle, type Asked, type Scripts } from './simulated-redis.ts'
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

/** What came of a batch of commands; those without a fate are answered. */
type Outcome = {
  readonly replies: Map<Asked, Reply>
  readonly fates: Map<Asked, Fate>
}

/** Puts commands; what is to happen once each is answered, and what is to be asked again. */
export async function serve (
  servers: Servers, batch: readonly Asked[], nowMs: number
): Promise<{ readonly answers: readonly (() => void)[], readonly again: readonly Asked[] }> {
  const { trace, lines } = servers
  trace.note(batch, nowMs)
  const outcome: Outcome = { replies: new Map(), fates: new Map() }
  for (const line of Object.values(lines)) {
    const asked = batch.filter(one => one.line === line)
    if (asked.length > 0) await put(servers, { line, asked, nowMs, outcome })
  }
  const isAgain = (one: Asked) => outcome.fates.get(one) === 'again'
  const answers = batch.filter(one => !isAgain(one)).map(one => () => answer(one, outcome))
  return { answers: [...answers, ...await heard(servers, batch)], again: batch.filter(isAgain) }
}

function answer (one: Asked, { replies, fates }: Outcome): void {
  if (fates.get(one) === 'fail') fail(one)
  else settle(one, replies.get(one) ?? null)
}

/** What a script publishes is heard after its own answer, and before anything else happens. */
async function heard (
  { scripts, channels }: Servers, batch: readonly Asked[]
): Promise<readonly (() => void)[]> {
  const isSaid = batch.some(({ command }) => scripts.publishes(command))
  return isSaid ? await channels.heard() : []
}

type Put = {
  readonly line: RedisLine
  readonly asked: readonly Asked[]
  readonly nowMs: number
  readonly outcome: Outcome
}

/** Puts commands to a server, which may end in between. */
async function put (
  servers: Servers, { line, asked, nowMs, outcome: { replies, fates } }: Put
): Promise<void> {
  const { lines, losses, scripts } = servers
  const loss = line === lines.state ? await losses.next() : undefined
  const executed = loss === undefined ? asked.length : losses.cut(asked.length)
  const commands = asked.slice(0, executed)
  const answers = await exchange(line, commands, { nowMs, scripts, runId: losses.runId() })
  for (const [index, one] of commands.entries()) replies.set(one, answers[index] ?? null)
  if (loss === undefined) return
  await lose(servers, loss)
  for (const [one, fate] of losses.fatesOf(asked, executed)) fates.set(one, fate)
}

/** Whoever listens hears nothing of what was said just before its connection ended. */
async function lose ({ losses, trace, channels, scripts }: Servers, loss: Loss): Promise<void> {
  await losses.strike(loss)
  trace.lost(loss.kind)
  await channels.miss()
  scripts.forget()
}
