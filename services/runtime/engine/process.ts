import type { EngineStep, ReadsOf, StageName } from '../../topology.ts'
import { MissingOrganizationKeyError } from '../crypto/key-ring.ts'
import type { MessagePosition, RawMessage } from '../kafka/bus.ts'
import { partitionHeadersIn } from '../platform/topics.ts'
import { FatalError, isInfrastructure } from '../platform/errors.ts'
import { failpoint } from '../platform/failpoint.ts'
import { FairSlots } from '../platform/limits.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { retry, retryForever, type Sleep } from '../platform/retry.ts'
import {
  type DeadLetter, type DeadLetters, diedAgain, MISSING_KEY, POISON, replayOutcomes,
} from './dead-letters.ts'
import {
  byJob, type Decision, decisionSpans, type Decoded, type Emission, type Emitter, collectIds,
  type Incoming, type MessageCodec, messageFields, type Postponement, type Stage,
} from './stage.ts'

type ProcessDeps = {
  readonly stage: Stage
  readonly messageCodec: MessageCodec
  readonly emitter: Emitter
  readonly deadLetters: DeadLetters
  readonly steps: Steps
  readonly metrics: Metrics
  readonly log: Log
  /** Called for every completed message that is not a dead letter. */
  readonly onCompleted: (raw: RawMessage) => void
}

/** Where an effect happens: the stage, the group and the first message of the batch. */
export type StepContext = {
  readonly location: MessagePosition & { readonly stage: StageName, readonly group: string }
  readonly signal: AbortSignal
  /** The messages of the effect, for logs. */
  readonly messages?: readonly RawMessage[]
}

/** The messages of one call of `decide`, with their context. */
type MessageBatch = StepContext & {
  /** Marks a message as completed, so that its offset may be committed. */
  readonly complete: (raw: RawMessage) => void
  /** When the decision started, milliseconds since 1970. */
  readonly startedMs?: number
  /** The message, which is the only one, has ended earlier processes: it is not decided. */
  readonly isPoison?: boolean
  /** The dead letter whose rows are being emitted. */
  readonly deadLettered?: readonly RawMessage[]
}

type Outcome = Promise<Postponement | undefined>

/** A consumer only gets topics that its stage reads. */
type Decodable = Incoming<ReadsOf<StageName>>

const TRIES = 3
const BACKOFF = { firstMs: 100, maxMs: 2_000 }
/** Messages sealed and sent per round, so that consumers start while the next round is sealed. */
const ROUND = 12

/**
 * Runs the steps of a stage but for the last one, `commit`, which the caller runs. THE ORDER IS THE
 * GUARANTEE: an effect starts only after the effects before it are acknowledged. So everything that
 * a crash interrupts is repeated from the first step, and nothing is lost.
 */
export class Process {
  readonly #deps: ProcessDeps
  readonly #slots: FairSlots | undefined

  constructor (deps: ProcessDeps) {
    this.#deps = deps
    this.#slots = deps.stage.slots && new FairSlots(deps.stage.slots)
  }

  /** Decodes messages, decides them and applies the decisions. */
  async run (messages: readonly RawMessage[], delivery: MessageBatch): Outcome {
    const { stage, steps, metrics, deadLetters } = this.#deps
    const batch = { ...delivery, messages }
    const readable: Decodable[] = []
    const decideReadable = () => this.#decide(readable.splice(0), batch)
    const [first] = messages
    if (delivery.isPoison === true && first !== undefined && first.forged !== true) {
      await this.#deadLetter({ raw: first, reason: POISON, cause: POISON }, batch)
      return undefined
    }
    // Decode and open all messages concurrently. A crash here has no effect.
    const decoded = await steps.run('decode', () => steps.run('open', () =>
      Promise.all(messages.map(raw => this.#decode(raw, batch))), batch), batch)
    for (const [index, opened] of decoded.entries()) {
      const raw = messages[index] as RawMessage
      if (opened.kind === 'message') readable.push(opened.message as Decodable)
      if (opened.kind === 'dead') {
        // Decides the messages before it first: the emissions for its rows may depend on them.
        const postponed = await decideReadable()
        if (postponed !== undefined) return postponed
        await this.#deadLetter({ raw, reason: opened.reason, cause: 'unreadable' }, batch)
      }
      if (opened.kind !== 'skip') continue
      metrics.count('stage_messages_skipped_total', { stage: stage.name, reason: opened.why })
      const replays = replayOutcomes(raw, { action: 'ignored', reason: opened.why })
      if (replays.length > 0) {
        await steps.run('dead', () => deadLetters.report(replays, batch.signal), batch)
      }
      batch.complete(raw)
    }
    return decideReadable()
  }

  /** Decodes a message. After failed retries, unless of infrastructure, it is unreadable. */
  async #decode (raw: RawMessage, batch: MessageBatch): Promise<Decoded> {
    const { messageCodec, steps, log } = this.#deps
    if (raw.forged === true) return { kind: 'skip', why: 'forged' }
    try {
      return await steps.tryThrice(() => messageCodec.decode(raw), batch)
    } catch (error) {
      if (isInfrastructure(error)) throw error
      const reason = findReason(error, batch, 'unreadable')
      log.error({ err: error, ...messageFields(raw) },
        'decoding failed: sending the message to the dead-letter topic')
      return { kind: 'dead', reason }
    }
  }

  /** Finds the message that always fails and sends it to the dead-letter topic. */
  async #decide (messages: readonly Decodable[], batch: MessageBatch): Outcome {
    const { stage, steps, log } = this.#deps
    const [first] = messages
    if (first === undefined) return undefined
    try {
      return await steps.tryThrice(() => stage.slots === undefined || this.#slots === undefined
        ? this.#decideAndApply(messages, batch)
        : this.#slots.run(stage.slots.of(messages), async () => {
          batch.signal.throwIfAborted()
          return await this.#decideAndApply(messages, batch)
        }), batch)
    } catch (error) {
      const reason = findReason(error, batch, 'decision failed')
      if (messages.length === 1) {
        log.error({ err: error, ...messageFields(first.raw) },
          'decision failed: sending the message to the dead-letter topic')
        await this.#deadLetter({ raw: first.raw, reason, cause: 'failed' }, batch)
        return undefined
      }
    }
    // One of several messages fails: decided one by one, it does not affect the others.
    for (const message of messages) {
      const postponed = await this.#decide([message], batch)
      if (postponed !== undefined) return postponed
    }
    return undefined
  }

  /**
   * After a crash the stage decides again, perhaps differently, because its state may have changed;
   * rows and money are counted once in any case.
   */
  async #decideAndApply (messages: readonly Decodable[], batch: MessageBatch): Outcome {
    const { stage, steps } = this.#deps
    const startedMs = Date.now()
    const decided = await steps.run('decide', () => stage.decide(messages, batch.signal), batch)
    const decisions = decided.filter(outcome => 'completes' in outcome)
    await this.#apply(decisions, { ...batch, startedMs })
    // Redelivery from the first postponed message includes the later ones.
    return decided.filter(outcome => 'postpone' in outcome)
      .toSorted((a, b) => a.postpone.raw.offset < b.postpone.raw.offset ? -1 : 1)[0]
  }

  /**
   * Applies decisions, each step for all decisions together. Afterwards the offsets of their
   * messages may be committed.
   */
  async #apply (decided: readonly Decision[], batch: MessageBatch): Promise<void> {
    const decisions = decided.map(decision => withPartitions(decision, batch))
    const { emits, around } = decisionSpans(batch.location, decisions, batch)
    await around(() => this.#applyAll(decisions, emits, batch))
    this.#logDecisions(decisions)
  }

  async #applyAll (
    decisions: readonly Decision[], emits: readonly Emission[], batch: MessageBatch
  ): Promise<void> {
    const { deadLetters, steps, onCompleted } = this.#deps
    const { signal } = batch
    const letters = decisions.flatMap(({ completes, dead }) => dead === undefined
      ? []
      : [completes.map(({ raw }) => ({ raw, reason: dead, cause: 'decided' as const }))])
    deadLetters.checkLimit(letters)
    await this.#produce(emits, batch)
    // Send dead letters and wait. After a crash a dead letter may exist twice, but never none.
    await steps.run('dead', () => deadLetters.send(letters, signal), batch)
    // Run actions that need all messages to be acknowledged. After a crash they are repeated.
    const waiting = new Set(decisions.flatMap(({ afterProduced }) => afterProduced ?? []))
    await steps.run('after', () => runAll(waiting), batch)
    // Report what became of replayed letters, once nothing can fail any more.
    const replays = decisions.flatMap(({ completes, dead, ignored }) => {
      const outcome = dead !== undefined
        ? diedAgain(dead)
        : ignored !== undefined
          ? { action: 'ignored', reason: ignored } as const
          : { action: 'replayed', reason: 'taken' } as const
      return completes.flatMap(({ raw }) => replayOutcomes(raw, outcome))
    })
    if (replays.length > 0) {
      await steps.run('dead', () => deadLetters.report(replays, signal), batch)
    }
    for (const { completes, dead } of decisions) {
      for (const { raw } of completes) {
        batch.complete(raw)
        if (dead === undefined) onCompleted(raw)
      }
    }
    if (decisions.some(({ completes, dead }) => dead === undefined && completes.length > 0)) {
      deadLetters.reset()
    }
  }

  /** Resolves when all are acknowledged; rejects only after all pending sends have ended. */
  async #produce (emits: readonly Emission[], batch: MessageBatch): Promise<void> {
    const { emitter, steps } = this.#deps
    const pending: Promise<void>[] = []
    try {
      for (let from = 0; from === 0 || from < emits.length; from += ROUND) {
        // A crash before the next step loses only work of this round.
        const sealed =
          await steps.run('seal', () => emitter.seal(emits.slice(from, from + ROUND)), batch)
        // Waits for all acknowledgements. After a crash some messages are sent again; their
        // consumers count each row, entry and end of a job once.
        const sending = steps.run('produce', () => emitter.send(sealed, batch.signal), batch)
        // It is awaited below and may reject before that.
        sending.catch(() => {})
        pending.push(sending)
      }
    } finally {
      await Promise.allSettled(pending)
    }
    await Promise.all(pending)
  }

  /**
   * Completes a message that can never be decided. Its headers name its rows; the emissions of the
   * stage for them are sent before the dead letter. If that fails too, only the dead letter is
   * sent: the message must neither be lost nor block others, and `ledger` fails its job later, as a
   * stalled one. Without the key of its organization nothing is emitted: the rows stay open for a
   * replay.
   */
  async #deadLetter (letter: DeadLetter, delivery: MessageBatch): Promise<void> {
    const { deadLetters, steps, log } = this.#deps
    const batch = { ...delivery, messages: [letter.raw] }
    deadLetters.checkLimit([[letter]])
    if (letter.reason !== MISSING_KEY) await this.#resolveDead(letter, batch)
    await steps.run('dead', () => deadLetters.send([[letter]], batch.signal), batch)
    const replays = replayOutcomes(letter.raw, diedAgain(letter.reason))
    if (replays.length > 0) {
      await steps.run('dead', () => deadLetters.report(replays, batch.signal), batch)
    }
    batch.complete(letter.raw)
    log.error({ ...messageFields(letter.raw), reason: letter.reason },
      'message sent to the dead-letter topic')
  }

  async #resolveDead (letter: DeadLetter, batch: MessageBatch): Promise<void> {
    const { raw } = letter
    try {
      const emits = await this.#emissionsFor(letter, batch)
      await this.#apply([{ completes: [], emits }], { ...batch, deadLettered: [raw] })
    } catch (error) {
      // Throws what ends the delivery or the process; the lack of one organization's key does not.
      findReason(error, batch, letter.reason)
      this.#deps.log.error({ err: error, ...messageFields(raw) }, 'rows of a dead letter not ' +
        'resolved; they stay open until ledger fails the job')
    }
  }

  async #emissionsFor (
    { raw, reason }: DeadLetter, batch: MessageBatch
  ): Promise<readonly Emission[]> {
    const { stage, steps } = this.#deps
    return steps.run('decide', () => stage.resolveDead(raw.headers, { ...raw, reason }), batch)
  }

  /**
   * Flushes held messages of a partition that need no further message: otherwise they would hold
   * back its offset until another message arrives. True if there were any.
   */
  async flushHeld (batch: MessageBatch): Promise<boolean> {
    const decisions = await this.#decideHeld(batch)
    for (const decision of decisions) await this.#applyHeld(decision, batch)
    return decisions.length > 0
  }

  async #decideHeld (batch: MessageBatch): Promise<readonly Decision[]> {
    const { stage, steps, log } = this.#deps
    const { topic, partition } = batch.location
    try {
      return await steps.run('decide',
        async () => await stage.flushHeld?.({ topic, partition }) ?? [], batch)
    } catch (error) {
      if (isInfrastructure(error) || !mayRetry(error, batch)) throw error
      log.error({ err: error, topic, partition }, 'decision about held messages failed, retrying')
      return []
    }
  }

  /** Applies a decision; if it keeps failing, its messages are dead letters, as one failure. */
  async #applyHeld (decision: Decision, batch: MessageBatch): Promise<void> {
    const { steps, log } = this.#deps
    try {
      await steps.tryThrice(() => this.#apply([decision], batch), batch)
    } catch (error) {
      const dead = findReason(error, batch, 'flush failed')
      const { completes } = decision
      const about = { ...collectIds(completes.map(({ raw }) => raw)), messages: completes.length }
      log.error({ err: error, ...about },
        'flush of held messages failed: sending them to the dead-letter topic')
      await this.#apply([{ completes, emits: [], dead }], batch)
    }
  }

  /**
   * Logs one line per job of a decision: for dead letters always, with the position of the first
   * message, otherwise at level `debug`.
   */
  #logDecisions (decisions: readonly Decision[]): void {
    const { log } = this.#deps
    const isDebug = log.isLevelEnabled('debug')
    for (const { completes, dead } of decisions) {
      if (dead === undefined && !isDebug) continue
      for (const messages of byJob(completes.map(({ raw }) => raw)).values()) {
        const [first] = messages
        const about = { ...collectIds(messages), messages: messages.length }
        if (dead === undefined) log.debug(about, 'messages decided')
        else {
          log.error({ ...about, ...first && messageFields(first), reason: dead },
            'messages sent to the dead-letter topic')
        }
      }
    }
  }
}

/** Runs all actions concurrently and removes those that succeed: a retry runs the others. */
async function runAll (waiting: Set<() => Promise<void>>): Promise<void> {
  const results = await Promise.allSettled([...waiting].map(async action => {
    await action()
    waiting.delete(action)
  }))
  const failed = results.find(result => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

/** Emissions go to the partitions of their job, which its messages name. */
function withPartitions (decision: Decision, { deadLettered = [] }: MessageBatch): Decision {
  const { completes, emits } = decision
  const sources = completes.length > 0 ? completes.map(({ raw }) => raw) : deadLettered
  const ofJobs = new Map([...byJob(sources)].map(([job, [first]]) =>
    [job, partitionHeadersIn(first?.headers ?? {})]))
  if ([...ofJobs.values()].every(headers => Object.keys(headers).length === 0)) return decision
  return {
    ...decision,
    emits: emits.map(emission => {
      const { job = '' } = emission.value as { readonly job?: string }
      return { ...emission, partitions: ofJobs.get(job) ?? {} }
    }),
  }
}

/**
 * The reason of the dead letter of a message that failed.
 * @throws the error if it ends the delivery or the process.
 */
function findReason (error: unknown, context: StepContext, failed: string): string {
  if (!context.signal.aborted && error instanceof MissingOrganizationKeyError) return MISSING_KEY
  if (!mayRetry(error, context)) throw error
  return failed
}

/** Whether an error is neither the abort of this delivery nor fatal for the process. */
function mayRetry (error: unknown, { signal }: StepContext): boolean {
  return !signal.aborted && !(error instanceof FatalError)
}

/** A hook for simulations: it throws to simulate a crash before an effect. */
export type Effects = {
  readonly before: (step: EngineStep, location: StepContext['location']) => Promise<void>
}

/** An error of the hook simulates a crash, so it must not be retried. */
async function hook (
  effects: Effects | undefined, step: EngineStep, location: StepContext['location']
) {
  try {
    await effects?.before(step, location)
  } catch (cause) {
    throw new FatalError(`stopped before step ${step}`, { cause })
  }
}

type StepsDeps = {
  readonly metrics: Metrics
  readonly log: Log
  readonly effects?: Effects | undefined
  readonly sleep?: Sleep | undefined
  readonly random?: (() => number) | undefined
}

/** Runs effects with hook, failpoint, retries and metrics. */
export class Steps {
  readonly #deps: StepsDeps
  /** The effects that are retrying an infrastructure error. */
  readonly #waiting = new Set<object>()

  constructor (deps: StepsDeps) {
    this.#deps = deps
  }

  /** Runs one effect: not after the signal is aborted, with retries of infrastructure errors. */
  async run<T> (step: EngineStep, action: () => Promise<T>, at: StepContext): Promise<T> {
    const { metrics, log, effects, sleep, random } = this.#deps
    const { location, signal, messages = [] } = at
    const labels = { stage: location.stage, step }
    await hook(effects, step, location)
    failpoint(`${location.stage}.${step}`, messages)
    const startedAt = performance.now()
    const effect = {}
    try {
      return await retryForever(action, {
        sleep,
        random,
        signal,
        when: isInfrastructure,
        onRetry: (error, attempt) => {
          this.#waiting.add(effect)
          metrics.count('stage_retries_total', { ...labels, cause: 'infrastructure' })
          log.warn({ err: error, attempt, step, ...collectIds(messages) },
            'dependency unavailable, retrying')
        },
      })
    } finally {
      this.#waiting.delete(effect)
      metrics.observe('stage_step_seconds', labels, (performance.now() - startedAt) / 1_000)
    }
  }

  /** Tries three times. Throws infrastructure errors at once: the step around it retries them. */
  tryThrice<T> (action: () => Promise<T>, at: StepContext): Promise<T> {
    const { metrics, sleep, random } = this.#deps
    const labels = { stage: at.location.stage, step: 'decide', cause: 'failure' } as const
    return retry(TRIES, action, {
      ...BACKOFF,
      sleep,
      random,
      signal: at.signal,
      when: error => mayRetry(error, at) && !isInfrastructure(error),
      onRetry: () => metrics.count('stage_retries_total', labels),
    })
  }

  /** Number of partitions that are retrying an infrastructure error. */
  stalled (): number {
    return this.#waiting.size
  }
}
