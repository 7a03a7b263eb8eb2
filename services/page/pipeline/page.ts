import type { RouteOptions } from 'fastify'
import { STAGES, type StageName } from '../../topology.ts'
import type { PageDeps } from '../context.ts'
import { count, html, type Html } from '../html.ts'
import { operatorPage, sendHtml, table } from '../layout.ts'
import { PageError } from '../page-error.ts'
import type { Session } from '../../accounts/sessions.ts'
import { ARROWS, type Figures, type PipelineStatus, type StageFigures } from './figures.ts'
import { renderDiagram, type Texts } from './drawing.ts'

/** The page of the pipeline for operators, and its figures for the script that refreshes them. */
export function pipelineRoutes (deps: PageDeps): readonly RouteOptions[] {
  return [
    {
      method: 'GET',
      url: '/pipeline',
      config: { access: 'operator' },
      handler: async ({ visitor }, reply) => {
        if (visitor === undefined) throw new PageError('signed_out')
        return sendHtml(reply, pipelineView(visitor.session, await deps.pipelineStatus()))
      },
    },
    {
      method: 'GET',
      url: '/pipeline/figures',
      config: { access: 'operator', forScript: true },
      handler: async (_request, reply) => {
        const status = await deps.pipelineStatus()
        return reply.send({ texts: textsOf(status), tones: tonesOf(status) })
      },
    },
  ]
}

/** The pipeline as a drawing and as tables. */
export function pipelineView (session: Session, status: PipelineStatus): Html {
  const texts = textsOf(status)
  const live = (id: string) => html`<span data-text="${id}">${texts[id]}</span>`
  return operatorPage(session, {
    title: 'Pipeline',
    scripts: ['pipeline.js'],
    body: html`
      <div class="heading"><h1>Pipeline</h1>
        <label class="check"><input type="checkbox" id="live" checked> Live</label></div>
      <p class="hint">${live('health')} Rates are averages of the last 20 seconds. The rate
        of writing to a topic includes all its writers.</p>
      <div class="table drawing" role="region" aria-label="Drawing of the pipeline" tabindex="0">
        ${renderDiagram(texts, tonesOf(status))}
      </div>
      <section><h2>Stages</h2>
        ${table('Stages', [
          { text: 'Stage' }, { text: 'Instances', isNumber: true },
          { text: 'Work', isNumber: true }, { text: 'Oldest message', isNumber: true },
        ], STAGES.map(stage => html`<tr><th scope="row">${stage}</th>
          <td class="number">${live(`instances-${stage}`)}</td>
          <td class="number">${live(`done-${stage}`)}</td>
          <td class="number">${live(`age-${stage}`)}</td></tr>`))}
      </section>
      <section><h2>Topics</h2>
        ${table('Topics', [
          { text: 'Stage' }, { text: 'Does' }, { text: 'Topic' },
          { text: 'Rate', isNumber: true }, { text: 'Lag', isNumber: true },
        ], ARROWS.map(({ id, stage, topic, kind }) => html`<tr><th scope="row">${stage}</th>
          <td>${kind}</td><td><code>${topic}</code></td>
          <td class="number">${live(`rate-${id}`)}</td>
          <td class="number">${kind === 'reads' ? live(`lag-${id}`) : '–'}</td></tr>`))}
      </section>`,
  })
}

/** A stage with an older message is late. */
const LATE_SECONDS = 10
const NO_VALUE = '–'

/** The units of stages whose messages carry no rows. */
const UNITS: Partial<Record<StageName, string>> = {
  ingest: 'requests/s',
  feed: 'jobs/s',
  deliver: 'messages/s',
  publish: 'messages/s',
  ledger: 'messages/s',
}

/**
 * All texts that change, by element: `rate-` and `lag-` of an arrow, `instances-`, `done-` and
 * `age-` of a stage, `health` of the pipeline. Texts with `-drawn` are in the drawing, which has no
 * column headings. The `done-` of a paused stage is `paused`.
 */
export function textsOf ({ figures, targets, unreachable }: PipelineStatus): Texts {
  const health = [healthOf(targets, unreachable), pausedOf(figures), recoveryOf(figures)]
  const texts: Record<string, string> = { health: health.filter(text => text !== '').join(' ') }
  for (const { id, kind } of ARROWS) {
    const { messagesPerSecond, lagMessages } = figures.arrows.get(id) ?? {}
    const rate = rateText(messagesPerSecond, 'messages/s')
    texts[`rate-${id}`] = rate
    texts[`rate-${id}-drawn`] = rate === NO_VALUE ? '' : rate
    if (kind === 'reads') {
      const lag = lagMessages === undefined ? undefined : count(lagMessages)
      texts[`lag-${id}`] = lag ?? NO_VALUE
      texts[`lag-${id}-drawn`] = lag === undefined ? '' : `lag ${lag}`
    }
  }
  for (const stage of STAGES) {
    const { instances = 0, perSecond, oldestSeconds, isPaused } = figures.stages.get(stage) ?? {}
    const age = oldestSeconds === undefined ? undefined : `${oldestSeconds.toFixed(1)} s`
    texts[`done-${stage}`] = isPaused === true
      ? 'paused'
      : rateText(perSecond, UNITS[stage] ?? 'rows/s')
    texts[`age-${stage}`] = age ?? NO_VALUE
    texts[`age-${stage}-drawn`] = age === undefined ? '' : `oldest ${age}`
    texts[`instances-${stage}`] = instances === 0 ? NO_VALUE : count(instances)
  }
  return texts
}

/** The colors of arrows and stages by element: busy arrows, and paused or late stages. */
export function tonesOf ({ figures }: PipelineStatus): Readonly<Record<string, string>> {
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
  if (perSecond === undefined) return NO_VALUE
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
  return `The money of ${whose} is locked until ledger has compared it with the journal.`
}

function healthOf (targets: number, unreachable: number): string {
  if (targets === 0) {
    return 'No metrics endpoint is configured: set METRICS_TARGETS or METRICS_TARGETS_FILE.'
  }
  if (unreachable > 0) return `${unreachable} of ${targets} processes do not answer.`
  return `All ${targets} processes answer.`
}
