import { count } from '../format.ts'
import type { StageName } from '../../../topology.ts'
import { ARROWS, STAGES } from './arrows.ts'
import type { Figures, StageFigures } from './figures.ts'
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
  publish: 'messages/s',
  ledger: 'messages/s',
}

/**
 * All texts that change, by name: `rate-` and `lag-` of an arrow, `done-` and `age-` of a stage,
 * where `done-` tells that operators have paused it;
 * those that end in `-drawn` say in the drawing what a table says in the head of its column.
 */
export function textsOf ({ figures, targets, silent }: Flows): Texts {
  const health = [healthOf(targets, silent), pausedOf(figures), recoveryOf(figures)]
  const texts: Record<string, string> = { health: health.filter(text => text !== '').join(' ') }
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
    const { instances = 0, perSecond, oldestSeconds, isPaused } = figures.stages.get(stage) ?? {}
    const age = oldestSeconds === undefined ? undefined : `${oldestSeconds.toFixed(1)} s`
    texts[`done-${stage}`] = isPaused === true
      ? 'paused'
      : rateText(perSecond, UNITS[stage] ?? 'rows/s')
    texts[`age-${stage}`] = age ?? NOT_TOLD
    texts[`age-${stage}-drawn`] = age === undefined ? '' : `oldest ${age}`
    texts[`instances-${stage}`] = instances === 0 ? NOT_TOLD : count(instances)
  }
  return texts
}

/** Arrows along which something moves, and stages that are paused or behind, for their colours. */
export function tonesOf ({ figures }: Flows): Readonly<Record<string, string>> {
  const arrows = ARROWS.map(({ id }) =>
    [`arrow-${id}`, (figures.arrows.get(id)?.messagesPerSecond ?? 0) > 0 ? 'busy' : 'idle'])
  const stages = STAGES.map(stage => [`stage-${stage}`, toneOf(figures.stages.get(stage))])
  return Object.fromEntries([...arrows, ...stages])
}

function toneOf (stage: StageFigures | undefined): string {
  if (stage?.isPaused === true) return 'paused'
  return (stage?.oldestSeconds ?? 0) > LATE_SECONDS ? 'late' : 'fine'
}

function rateText (perSecond: number | undefined, unit: string): string {
  if (perSecond === undefined) return NOT_TOLD
  const isSmall = perSecond > 0 && perSecond < 10
  return `${isSmall ? perSecond.toFixed(1) : count(Math.round(perSecond))} ${unit}`
}

function pausedOf ({ stages }: Figures): string {
  const paused = STAGES.filter(stage => stages.get(stage)?.isPaused === true)
  return paused.length === 0 ? '' : `Paused by operators: ${paused.join(', ')}.`
}

function recoveryOf ({ tenantsWaiting }: Figures): string {
  if (tenantsWaiting === 0) return ''
  const whose = tenantsWaiting === 1 ? '1 tenant' : `${count(tenantsWaiting)} tenants`
  return `Money of ${whose} does not move yet: ledger compares it with the journal.`
}

function healthOf (targets: number, silent: number): string {
  if (targets === 0) return 'No service is named: set METRICS_TARGETS or METRICS_TARGETS_FILE.'
  if (silent > 0) return `${silent} of ${targets} services do not answer.`
  return `All ${targets} services answer.`
}
