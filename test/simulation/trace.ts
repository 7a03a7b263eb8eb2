import { createHash } from 'node:crypto'
import type { LossKind } from './loss-plan.ts'
import type { PendingCommand } from './simulated-redis.ts'

/** A digest of all that happens in a run, in its order: two runs of a seed have the same. */
export type Trace = {
  readonly begin: () => void
  readonly note: (batch: readonly PendingCommand[], nowMs: number) => void
  readonly lost: (kind: LossKind) => void
  readonly text: () => string
}

/** Nothing has happened yet. */
export function createTrace (): Trace {
  let hash = createHash('sha1')
  const note: Trace['note'] = (batch, nowMs) => {
    for (const { client, command } of batch) {
      hash.update(`${nowMs} ${client} ${command.name} `)
      for (const word of command.args) hash.update(word)
    }
  }
  return {
    note,
    begin: () => { hash = createHash('sha1') },
    lost: kind => { hash.update(`lost: ${kind} `) },
    text: () => hash.copy().digest('hex'),
  }
}
