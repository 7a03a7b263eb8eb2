import { count } from '../format.ts'
import type { StageName } from '../../../topology.ts'
import { ARROWS, STAGES } from './arrows.ts'
import type { Flows } from './flows.ts'

/** What stands in the drawing and its table: texts by the id of their elements. */
export type Texts = Readonly<Record<string, string>>

/** A stage that leaves a message for so long is behind. */
const LATE_SECONDS = 10
const NOT_TOLD = '–'

/** What is counted of stages that get no rows from a topic of ours. */
const UNITS: Partial<Record<StageName, string>> = {
  ingest: 'requests/s',
  feed: 'jobs/s',
  deliver: 'messages/s',
  handback: 'messages/s',
  ledger: 'messages/s',
}

/**
 * All texts that change, by name: `rate-` and `lag-` of an arrow, `done-` and `age-` of a stage;
 * those that end in `-drawn` say in the drawing what a table says in the head of its column.
 */
export function textsOf ({ figures, targets, silent }: Flows): Texts {
  const texts: Record<string, string> = { health: healthOf(targets, silent) }
  for (const { id, kind } of ARROWS) {
    const { messagesPerSecond, lagMessages } = figures.arrows.get(id) ?? {}
    const rate = rateText(messagesPerSecond, 'messages/s')
    texts[`rate-${id}`] = rate
    texts[`rate-${id}-drawn`] = rate === NOT_TOLD ? '' : rate
    if (kind === 'reads') {
      const lag = lagMessages === undefined ? undefined : count(lagMessages)
      texts[`lag-${id}`] = lag ?? NOT_TOLD
      texts[`lag-${id}-drawn`] = lag === undefined ? '' : `lag ${lag}`
    }
  }
  for (const stage of STAGES) {
    const { instances = 0, perSecond, oldestSeconds } = figures.stages.get(stage) ?? {}
    const age = oldestSeconds === undefined ? undefined : `${oldestSeconds.toFixed(1)} s`
    texts[`done-${stage}`] = rateText(perSecond, UNITS[stage] ?? 'rows/s')
    texts[`age-${stage}`] = age ?? NOT_TOLD
    texts[`age-${stage}-drawn`] = age === undefined ? '' : `oldest ${age}`
    texts[`instances-${stage}`] = instances === 0 ? NOT_TOLD : count(instances)
  }
  return texts
}

/** Arrows along which something moves, and stages that are behind, for their colours. */
export function tonesOf ({ figures }: Flows): Readonly<Record<string, string>> {
  const arrows = ARROWS.map(({ id }) =>
    [`arrow-${id}`, (figures.arrows.get(id)?.messagesPerSecond ?? 0) > 0 ? 'busy' : 'idle'])
  const stages = STAGES.map(stage => [`stage-${stage}`,
    (figures.stages.get(stage)?.oldestSeconds ?? 0) > LATE_SECONDS ? 'late' : 'fine'])
  return Object.fromEntries([...arrows, ...stages])
}

function rateText (perSecond: number | undefined, unit: string): string {
  if (perSecond === undefined) return NOT_TOLD
  const isSmall = perSecond > 0 && perSecond < 10
  return `${isSmall ? perSecond.toFixed(1) : count(Math.round(perSecond))} ${unit}`
}

function healthOf (targets: number, silent: number): string {
  if (targets === 0) return 'No service is named: set METRICS_TARGETS or METRICS_TARGETS_FILE.'
  if (silent > 0) return `${silent} of ${targets} services do not answer.`
  return `All ${targets} services answer.`
}
