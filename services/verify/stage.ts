import { parseTenant } from '../accounts/tenant.ts'
import type { WaitingBatch } from '../jobs/job.ts'
import type { JobStore } from '../jobs/store.ts'
import {
  type Decision, type Emission, type EmittedBy, type Incoming, inMessageSpan, type Postponement,
  type Stage,
} from '../runtime/engine/stage.ts'
import type { RawMessage } from '../runtime/kafka/bus.ts'
import { boundedCache, eventLoop, FairSlots } from '../runtime/platform/limits.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import { chooseLane } from '../runtime/platform/topics.ts'
import { readMessageRows, unresolvableBlock } from '../jobs/results/block.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'
import type { Reason } from '../../schemas/api/verdicts.ts'
import {
  batchEmissions, cancelledBatch, checkBatch, type CheckDeps, type CheckedBatch, type EmitDeps,
  listSubmissions, openIn, type VerificationBatch,
} from './batch.ts'
import { NO_PROVIDER } from './checker.ts'
import type { Submissions } from './provider.ts'
import type { TasksInFlight } from './submissions.ts'

export type VerifyDeps = CheckDeps & EmitDeps & {
  readonly store: JobStore
  /** What vendors have of a batch; needed for providers that take batches. */
  readonly submissionsOf?: (batch: VerificationBatch) => Promise<Submissions>
  /** Records the tasks that vendors have, for metrics. */
  readonly tasks?: TasksInFlight
  /** Maximum concurrent verification batches of a service in this process. */
  readonly concurrencyOf: (service: ServiceSlug) => number
  /** Maximum number of messages in one call of `decide`. */
  readonly batch: number
}

type BatchMessage = Incoming<'rows.to-verify' | 'rows.retry'>
type BatchDecision = Decision<'verify'>

/** Poll interval for the end or cancellation of jobs whose batches wait for their retry. */
const CANCELLATION_POLL_MS = 1_000

/**
 * Retried batches in one call of `decide`. Most have no row that is due, or wait for hosts as long
 * as the slowest of them; one after the other they would come back too late.
 */
const RETRIED_MESSAGES = 64

/** Batches that ended behind a waiting one and may be redelivered with it; the oldest go first. */
const MAX_ENDED = 10_000

/**
 * Checks verification batches live, with a concurrency limit per service. Rows whose providers are
 * down, or that wait for hosts, return on `rows.retry`, and the others are finished at once. A
 * message that is not due yet blocks its partition until it is. Messages behind it pass only if
 * their job was cancelled or has ended.
 */
export class VerifyStage implements Stage<'verify'> {
  readonly name = 'verify'
  readonly batch: number
  readonly batchOf: NonNullable<Stage<'verify'>['batchOf']>
  readonly byTenant = ['rows.to-verify'] as const
  readonly #deps: VerifyDeps
  readonly #slots: ReadonlyMap<string, FairSlots>
  readonly #ended = boundedCache<true>({ entries: MAX_ENDED })

  constructor (deps: VerifyDeps) {
    this.#deps = deps
    this.batch = deps.batch
    this.batchOf = { 'rows.retry': Math.max(RETRIED_MESSAGES, deps.batch) }
    this.#slots = new Map(SERVICE_SLUGS.map(service =>
      [service, new FairSlots({ capacity: deps.concurrencyOf(service), maxCredit: 1 })]))
  }

  async decide (
    messages: readonly BatchMessage[], signal: AbortSignal
  ): Promise<readonly (Decision<'verify'> | Postponement<'verify'>)[]> {
    const nowMs = this.#deps.clock.now()
    const { due, redelivered, waiting, behind } = await this.#sort(messages, nowMs)
    const decisions = await this.#decideAll([...due, ...behind], signal)
    decisions.push(...redelivered.map((message) => ({ completes: [message], emits: [] })))
    if (waiting === undefined) return decisions
    const untilMs = Math.min(waiting.value.notBefore, nowMs + CANCELLATION_POLL_MS)
    const remembered = decisions.map((decision) => ({
      ...decision,
      afterProduced: async () => {
        for (const message of behind) this.#ended.set(formatPosition(message), true)
        await decision.afterProduced?.()
      },
    }))
    return [...remembered, { postpone: waiting, untilMs }]
  }

  /**
   * The first message that must wait, and what is decided: the messages before it, those that ended
   * before their redelivery apart, and behind it those of jobs that are over.
   */
  async #sort (messages: readonly BatchMessage[], nowMs: number) {
    const isOpen = (message: BatchMessage) => !this.#ended.has(formatPosition(message))
    const isEarly = ({ value }: BatchMessage) => value.notBefore > nowMs
    const over = await jobsOver(
      messages.filter(message => isOpen(message) && isEarly(message)), this.#deps)
    const due: BatchMessage[] = []
    const redelivered: BatchMessage[] = []
    const behind: BatchMessage[] = []
    let waiting: BatchMessage | undefined
    for (const message of messages) {
      const isOver = over.has(message.value.job)
      if (!isOpen(message)) {
        if (waiting === undefined) redelivered.push(message)
      } else if (waiting === undefined) {
        if (isEarly(message) && !isOver) waiting = message
        else due.push(message)
      } else if (isOver) behind.push(message)
    }
    return { due, redelivered, waiting, behind }
  }

  /** Ends the rows of an unreadable batch, unless its job is closed or was never accepted. */
  async resolveDead (
    headers: RawMessage['headers']
  ): Promise<readonly EmittedBy<'verify'>[]> {
    const lost = readMessageRows(headers)
    if (lost === undefined) return []
    const { tenant, job } = lost.coordinates
    const outcome = await this.#deps.store.outcome(tenant, job)
    if (outcome.kind !== 'accepted' || outcome.job.closed) return []
    return [unresolvableBlock(lost, { atMs: outcome.job.createdAtMs, inputs: false })]
  }

  forget (): void {
    this.#ended.clear()
    this.#deps.tasks?.forget()
  }

  /** Waits for every batch even if one fails, so that none runs on after `decide` has rejected. */
  async #decideAll (
    messages: readonly BatchMessage[], signal: AbortSignal
  ): Promise<BatchDecision[]> {
    const settled = await Promise.allSettled(messages.map((message) =>
      this.#decideBatch(message, signal)))
    const failed = settled.find((it) => it.status === 'rejected')
    if (failed !== undefined) throw failed.reason
    return settled.flatMap((it) => it.status === 'fulfilled' ? [it.value] : [])
  }

  async #decideBatch (message: BatchMessage, signal: AbortSignal): Promise<BatchDecision> {
    const { store, clock, checker, tasks, submissionsOf } = this.#deps
    const { value } = message
    const { service, tenant, job } = value
    const { action, deadlineMs } = await store.batchAction(tenant, job)
    if (action === 'skip') {
      tasks?.record(message, [])
      return { completes: [message], emits: [] }
    }
    failpoint('verify.begun')
    const lane = chooseLane(value.totalRows)
    await eventLoop.yield(lane, tenant)
    const read = { value, rows: message.rows(), deadlineMs }
    const takesBatches = checker.takesBatches(service, parseTenant(tenant).mode)
    const batch: VerificationBatch = takesBatches
      ? { ...read, submissions: await submissionsOf?.(read) }
      : read
    const checked = action === 'cancelling'
      ? cancelledBatch(batch, clock.now())
      : await inMessageSpan('verify', message.raw, () => this.#check(batch, signal))
    await eventLoop.yield(lane, tenant)
    signal.throwIfAborted()
    const emits = batchEmissions(batch, checked, this.#deps)
    const retry = emits.find((emission) => emission.topic === 'rows.retry')
    const isOver = retry === undefined
    tasks?.record(message, isOver ? [] : listSubmissions(batch, openIn(checked.outcomes)))
    // A batch that ends with its first check has never waited.
    if (isOver && value.attempt === 0) return { completes: [message], emits }
    const waiting = retry && toWaiting(retry, checked, clock.now())
    return {
      completes: [message],
      emits,
      // The record follows the message: if the process dies between them, the next retry records.
      afterProduced: () => store.recordWaiting({ tenant, job, batch: value, waiting }),
    }
  }

  /**
   * Checks a batch within the limit of its service, in turn with those of other tenants. One that
   * waits for hosts needs no slot: it would take those of batches with a quick answer.
   */
  async #check (batch: VerificationBatch, signal: AbortSignal): Promise<CheckedBatch> {
    const { value, rows } = batch
    const slot = rows.waits == null ? this.#slots.get(value.service) : undefined
    const check = async () => await checkBatch(batch, this.#deps, signal)
    return slot === undefined
      ? await check()
      : await slot.run({ name: value.tenant, cost: 1 }, check)
  }
}

/** The position of a message in Kafka, which no other message has. */
function formatPosition ({ raw }: BatchMessage): string {
  return `${raw.topic}:${raw.partition}:${raw.offset}`
}

/** The jobs of these messages that need no more checks: ended, cancelled or never accepted. */
async function jobsOver (
  messages: readonly BatchMessage[], { store }: VerifyDeps
): Promise<ReadonlySet<string>> {
  const tenants = new Map(messages.map(({ value }) => [value.job, value.tenant]))
  const over = await Promise.all([...tenants].map(async ([job, tenant]) => {
    const { action } = await store.batchAction(tenant, job)
    return action === 'run' ? [] : [job]
  }))
  return new Set(over.flat())
}

/** What the rows of a retry wait for: the reasons that they would have if they ended now. */
function toWaiting (
  { value, rows }: Emission<'rows.retry'>, { outcomes, waiting }: CheckedBatch, nowMs: number
): WaitingBatch {
  const reasons: Partial<Record<Reason, number>> = {}
  const due = rows.waits?.due ?? []
  for (const [index, position] of openIn(outcomes).entries()) {
    // Without a word of its check or of a host, a row had no provider.
    const reason = rows.waits?.reasons[index] as Reason | undefined ??
      waiting.get(position)?.reason ?? NO_PROVIDER.reason
    reasons[reason] = (reasons[reason] ?? 0) + 1
  }
  return {
    reasons,
    lastDueMs: Math.min(Math.max(value.notBefore, ...due), value.retryDeadline),
    dueRows: rows.rows.length - due.filter(ms => ms > nowMs).length,
    deadlineMs: value.retryDeadline,
  }
}
