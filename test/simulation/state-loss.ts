import type { Journal } from '../../schemas/types.ts'
import { parseEntry, pendingSeq } from '../../services/money/wallet.ts'
import { type Chaos, createChaos } from './chaos.ts'
import { commandOf, type PendingCommand, type RedisLine, type Reply, wordsOf } from './redis.ts'

/** The content of the state Redis after a restart: all, an old file, or nothing. */
export type LossKind = 'restart' | 'old' | 'empty'

/** A loss that comes with a batch of commands, and the batch before which its file is written. */
export type Loss = { readonly kind: LossKind, readonly at: number, readonly snapshotAt: number }

/** Batches of commands, of which a run has some dozens: when a loss comes at the latest. */
const LATEST = [15, 50, 150] as const

/** The chance that plans the losses of a seed, and decides what each of them cuts off. */
const chanceOf = (seed: number): Chaos => createChaos(seed ^ 0x1055)

/** The number of losses, one after another. */
function planLosses (chaos: Chaos, number: number): readonly Loss[] {
  let at = 0
  return Array.from({ length: number }, () => {
    at += 1 + chaos.below(chaos.pick(LATEST))
    const kind = chaos.pick(['restart', 'old', 'old', 'empty', 'empty'] as const)
    return { kind, at, snapshotAt: 1 + chaos.below(at) }
  })
}

/** A connection ends; its client resends each unanswered command, or fails it. */
export type Completion = 'answer' | 'again' | 'fail'

/** Operators retry until they succeed: their commands are not under test. */
const SPARED = 'state operator'

/** Some answers of each connection still arrive, in order; the rest complete alike. */
function completionsOf (
  chaos: Chaos, commands: readonly PendingCommand[], executed: number
): ReadonlyMap<PendingCommand, Completion> {
  const completions = new Map<PendingCommand, Completion>()
  for (const [client, all] of Map.groupBy(commands, one => one.client)) {
    const done = all.filter(one => commands.indexOf(one) < executed).length
    const answered = client === SPARED ? done : chaos.below(done + 1)
    const rest = client === SPARED || chaos.happens(0.5) ? 'again' : 'fail'
    for (const [index, one] of all.entries()) {
      completions.set(one, index < answered ? 'answer' : rest)
    }
  }
  return completions
}

/**
 * The losses of the state Redis, at moments that the seed determines, between any two commands. The
 * environment executes the commands, and learns from here which of them are lost.
 */
export type StateLosses = {
  /** Starts a run without losses; `plan` adds them. */
  readonly begin: () => void
  /** Plans this many losses from here on. */
  readonly plan: (seed: number, number: number) => void
  /** Moves pending losses to the next commands. */
  readonly hurry: () => void
  /** Called before each batch of commands; returns the loss that comes with it, if any. */
  readonly next: () => Promise<Loss | undefined>
  /** How many of these commands are executed before the loss. */
  readonly cut: (commands: number) => number
  /** Restarts the Redis with this loss. */
  readonly strike: (loss: Loss) => Promise<void>
  /** How the commands of a batch that was cut complete. */
  readonly completionsOf: (
    pending: readonly PendingCommand[], executed: number
  ) => ReadonlyMap<PendingCommand, Completion>
  /** The id of the run that serves now. */
  readonly runId: () => string
  readonly isOver: () => boolean
  readonly kinds: readonly LossKind[]
  /** Entries lost with an outbox; they may or may not have reached the journal. */
  readonly lost: readonly Journal[]
}

type State = {
  readonly line: RedisLine
  chaos: Chaos
  planned: readonly Loss[]
  batches: number
  kinds: readonly LossKind[]
  lost: readonly Journal[]
  readonly snapshots: Map<Loss, Snapshot>
  /** For a loss before its file is written. */
  oldest: Snapshot
}

/** The losses of the Redis at the other end of the line. */
export function createStateLosses (line: RedisLine): StateLosses {
  let state = beginning(line)
  return {
    begin: () => { state = beginning(line) },
    plan: (seed, number) => {
      const chaos = chanceOf(seed)
      state = { ...beginning(line), chaos, planned: planLosses(chaos, number) }
    },
    hurry: () => {
      state.planned = state.planned.map(one => ({ ...one, at: state.batches }))
    },
    next: () => next(state),
    cut: commands => state.chaos.below(commands + 1),
    strike: loss => strike(state, loss),
    completionsOf: (pending, executed) => completionsOf(state.chaos, pending, executed),
    runId: () => String(state.kinds.length).padStart(40, '0'),
    isOver: () => state.planned.length === 0,
    get kinds () { return state.kinds },
    get lost () { return state.lost },
  }
}

function beginning (line: RedisLine): State {
  return {
    line,
    chaos: chanceOf(0),
    planned: [],
    batches: 0,
    kinds: [],
    lost: [],
    snapshots: new Map(),
    oldest: [],
  }
}

async function next (state: State): Promise<Loss | undefined> {
  const { line, snapshots } = state
  if (state.planned.length === 0) return undefined
  state.batches += 1
  if (state.batches === 1) state.oldest = await takeSnapshot(line)
  for (const one of state.planned) {
    if (one.snapshotAt === state.batches) snapshots.set(one, await takeSnapshot(line))
  }
  const [due, ...others] = state.planned
  if (due === undefined || due.at > state.batches) return undefined
  state.planned = others
  return due
}

async function strike (state: State, loss: Loss): Promise<void> {
  state.kinds = [...state.kinds, loss.kind]
  if (loss.kind === 'restart') return
  state.lost = [...state.lost, ...await readOutboxes(state.line)]
  const kept = loss.kind === 'old' ? state.snapshots.get(loss) ?? state.oldest : []
  await putSnapshot(state.line, kept)
}

/** The content of a Redis, as in a file of it; `left` is the time to live in ms, or below 0. */
type Snapshot =
  readonly { readonly key: Buffer, readonly left: number, readonly value: Buffer }[]

/** All keys as in a file, without keys that have just expired. */
async function takeSnapshot (line: RedisLine): Promise<Snapshot> {
  const keys = await keysLike(line, '*')
  const values = await exchange(line, keys.map(key => wordsOf('DUMP', key)))
  const left = await exchange(line, keys.map(key => wordsOf('PTTL', key)))
  return keys.map((key, index) => ({
    key, left: Number(left[index]), value: values[index] as Buffer,
  })).filter(({ value }) => value !== null)
}

/** Replaces the content of the Redis by that of the file. */
async function putSnapshot (line: RedisLine, snapshot: Snapshot): Promise<void> {
  await line.exchange([commandOf('FLUSHALL'), ...snapshot.map(({ key, left, value }) =>
    wordsOf('RESTORE', key, String(Math.max(left, 0)), value))])
}

/** The entries of every tenant that may not have come to the journal yet. */
async function readOutboxes (line: RedisLine): Promise<readonly Journal[]> {
  const keys = await keysLike(line, 'w:*')
  const found = await exchange(line, keys.map(key => wordsOf('HGETALL', key)))
  return found.flatMap(fields => (fields as Buffer[]).flatMap((json, at, all) =>
    at % 2 === 1 && pendingSeq(String(all[at - 1])) !== undefined
      ? [parseEntry(String(json))]
      : []))
}

async function keysLike (line: RedisLine, pattern: string): Promise<readonly Buffer[]> {
  const [keys] = await line.exchange([commandOf('KEYS', pattern)])
  return [...keys as Buffer[]].sort(Buffer.compare)
}

/** Without commands there is no reply to wait for. */
async function exchange (
  line: RedisLine, commands: readonly Buffer[]
): Promise<readonly Reply[]> {
  return commands.length === 0 ? [] : await line.exchange(commands)
}
