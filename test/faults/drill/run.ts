import { setTimeout as sleep } from 'node:timers/promises'
import { openStack } from '../stack.ts'
import { type Environment, openEnvironment } from '../environment.ts'
import { LOSSES, type Loss } from './losses.ts'
import { createCustomer, ITEMS, type Customer, type Item, type State } from './state.ts'

/** The outcome of one loss. `lost`: what is gone and was not announced, as before and after. */
export type Drilled = {
  readonly loss: Loss
  readonly seconds: number
  readonly kept: readonly Item[]
  readonly announced: readonly Item[]
  readonly lost: readonly string[]
}

const WITHIN_MS = 120_000
/** Soon, so that a drill has snapshots that are older than its losses. */
const SNAPSHOTS = { SNAPSHOT_EVERY_MS: '500', SNAPSHOT_BEHIND_MS: '1000' }
const LEADER_POLL_MS = 500

/** What each loss means, printed before anything is destroyed. */
export function announcement ({ store, destroyed, restoredBy, announced }: Loss): string {
  return `${store}: destroys ${destroyed}. Restored by ${restoredBy}. Lost for good: ${announced}.`
}

/** Loses each store alone, on a stack of its own, and compares what is there before and after. */
export async function runDrill (say: (line: string) => void): Promise<readonly Drilled[]> {
  for (const loss of LOSSES) say(announcement(loss))
  const stack = await openStack()
  try {
    const environment = await openEnvironment(stack, { env: SNAPSHOTS })
    try {
      // One customer, so that each loss meets what the one before has left.
      const customer = await createCustomer(environment)
      const drilled: Drilled[] = []
      for (const loss of LOSSES) {
        say(`${loss.store}: losing it`)
        drilled.push(await drill(environment, customer, loss))
      }
      return drilled
    } finally {
      await environment.stop()
    }
  } finally {
    await stack.close()
  }
}

async function drill (environment: Environment, customer: Customer, loss: Loss): Promise<Drilled> {
  const before = await settled(customer)
  const startedMs = performance.now()
  await loss.lose(environment, customer.tenant)
  const after = await restored(customer, before, loss)
  const work = await customer.work()
  const { lost, ...evaluated } = evaluate(loss, before, after)
  return {
    loss,
    seconds: Math.round((performance.now() - startedMs) / 1_000),
    ...evaluated,
    lost: [...lost, ...work === '"completed"' ? [] : [`a new job: ${work}`]],
  }
}

/** The state once two polls in a row are equal: copies arrive a moment later. */
async function settled (customer: Customer): Promise<State> {
  for (let last = await customer.observe(); ;) {
    await sleep(LEADER_POLL_MS)
    const next = await customer.observe()
    if (ITEMS.every(item => next[item] === last[item])) return next
    last = next
  }
}

/** The state once nothing that is not announced differs, or after two minutes. */
async function restored (customer: Customer, before: State, loss: Loss): Promise<State> {
  const deadline = performance.now() + WITHIN_MS
  for (;;) {
    const after = await customer.observe()
    if (evaluate(loss, before, after).lost.length === 0) return after
    if (performance.now() > deadline) return after
    await sleep(LEADER_POLL_MS)
  }
}

/** What was kept, and what was lost with and without being announced. */
function evaluate (
  { gone }: Pick<Loss, 'gone'>, before: State, after: State
): Pick<Drilled, 'kept' | 'announced' | 'lost'> {
  const kept = ITEMS.filter(item => before[item] === after[item])
  const changed = ITEMS.filter(item => before[item] !== after[item])
  return {
    kept,
    announced: changed.filter(item => gone.includes(item)),
    lost: changed.filter(item => !gone.includes(item))
      .map(item => `${item}: ${before[item]} before, ${after[item]} after`),
  }
}

/** A line a loss, and below it what was lost without being announced. */
export function drillTable (drilled: readonly Drilled[]): string {
  const lines = [
    ['lost', 'seconds', 'kept', 'lost as announced', 'result'],
    ...drilled.map(({ loss, seconds, kept, announced, lost }) => [
      loss.store, String(seconds), `${kept.length} of ${ITEMS.length}`,
      announced.join(', ') || '-', lost.length === 0 ? 'ok' : `${lost.length} LOST`,
    ]),
  ]
  const widths = (lines[0] ?? []).map((_, column) =>
    Math.max(...lines.map(line => line[column]?.length ?? 0)))
  const table = lines.map(line =>
    line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ').trimEnd())
  return [...table, ...drilled.flatMap(({ loss, lost }) =>
    lost.map(text => `${loss.store} lost ${text}`))].join('\n')
}
