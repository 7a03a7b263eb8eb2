import { createHash } from 'node:crypto'
import type { LossKind } from './loss-plan.ts'
import type { Asked } from './simulated-redis.ts'

/** A digest of all that happens in a run, in its order: two runs of a seed have the same. */
export type Trace = {
  readonly begin: () => void
  readonly note: (batch: readonly Asked[], nowMs: number) => void
  readonly lost: (kind: LossKind) => void
  readonly text: () => string
}

/** Nothing has happened yet. */
export function createTrace (): Trace {
  let hash = createHash('sha1')
  const note: Trace['note'] = (batch, nowMs) => {
    for (const { asker, command } of batch) {
      hash.update(`${nowMs} ${asker} ${command.name} `)
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
