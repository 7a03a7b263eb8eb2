import type { RouteOptions } from 'fastify'
import { STAGES, type StageName } from '../../topology.ts'
import type { Session } from '../../accounts/sessions.ts'
import type { PageDeps } from '../context.ts'
import { count, html, type Html } from '../html.ts'
import { operatorPage, sendHtml, table } from '../layout.ts'
import { PageError } from '../page-error.ts'
import { type Arrow, ARROWS, type PipelineStatus } from './figures.ts'
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
        return reply.send({ texts: renderTexts(status), tones: chooseTones(status) })
      },
    },
  ]
}

/** The pipeline as a drawing and as tables. */
function pipelineView (session: Session, status: PipelineStatus): Html {
  const texts = renderTexts(status)
  const live = (id: string) => html`<span data-text="${id}">${texts[id]}</span>`
  const number = <Row = StageName>(text: string, cell: (row: Row) => Html | string) =>
    ({ text, isNumber: true, cell })
  return operatorPage(session, '/pipeline', {
    scripts: ['pipeline.js'],
    body: html`
      <div class="heading"><h1>Pipeline</h1>
        <label class="check"><input type="checkbox" id="live" checked> Live</label></div>
      <p class="hint">${live('health')} Rates are averages of the last 20 seconds. The rate
        of writing to a topic includes all its writers.</p>
      <div class="table drawing" role="region" aria-label="Drawing of the pipeline" tabindex="0">
        ${renderDiagram(texts, chooseTones(status))}
      </div>
      <section><h2>Stages</h2>
        ${table('Stages', STAGES, [
          { text: 'Stage', isHeader: true, cell: stage => stage },
          number('Instances', stage => live(`instances-${stage}`)),
          number('Work', stage => live(`done-${stage}`)),
          number('Oldest message', stage => live(`age-${stage}`)),
        ])}
      </section>
      <section><h2>Topics</h2>
        ${table('Topics', ARROWS, [
          { text: 'Stage', isHeader: true, cell: ({ stage }) => stage },
          { text: 'Does', cell: ({ kind }) => kind },
          { text: 'Topic', cell: ({ topic }) => html`<code>${topic}</code>` },
          number<Arrow>('Rate', ({ id }) => live(`rate-${id}`)),
          number<Arrow>('Lag', ({ id, kind }) => kind === 'reads' ? live(`lag-${id}`) : NO_VALUE),
        ])}
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
function renderTexts (status: PipelineStatus): Texts {
  const { figures } = status
  const texts: Record<string, string> = { health: healthText(status) }
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
    const age = oldestSeconds === undefined
      ? undefined
      : `${Math.max(0, oldestSeconds).toFixed(1)} s`
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
function chooseTones ({ figures }: PipelineStatus): Texts {
  const arrows = ARROWS.map(({ id }) =>
    [`arrow-${id}`, (figures.arrows.get(id)?.messagesPerSecond ?? 0) > 0 ? 'busy' : 'idle'])
  const stages = STAGES.map(stage => {
    const { isPaused = false, oldestSeconds = 0 } = figures.stages.get(stage) ?? {}
    return [`stage-${stage}`, isPaused ? 'paused' : oldestSeconds > LATE_SECONDS ? 'late' : 'fine']
  })
  return Object.fromEntries([...arrows, ...stages])
}

function rateText (perSecond: number | undefined, unit: string): string {
  if (perSecond === undefined) return NO_VALUE
  const isSmall = perSecond > 0 && perSecond < 10
  return `${isSmall ? perSecond.toFixed(1) : count(Math.round(perSecond))} ${unit}`
}

/** Whether all processes answer, which stages are paused, and whose money is locked. */
function healthText (
  { targets, unreachable, figures: { stages, tenantsWaiting } }: PipelineStatus
): string {
  const paused = STAGES.filter(stage => stages.get(stage)?.isPaused === true)
  const waiting = tenantsWaiting === 1 ? '1 tenant' : `${count(tenantsWaiting)} tenants`
  const sentences = [
    targets === 0
      ? 'No metrics endpoint is configured: set METRICS_TARGETS or METRICS_TARGETS_FILE.'
      : unreachable > 0
        ? `${unreachable} of ${targets} processes do not answer.`
        : targets === 1 ? 'The process answers.' : `All ${targets} processes answer.`,
    paused.length > 0 && `Paused by operators: ${paused.join(', ')}.`,
    tenantsWaiting > 0 &&
      `The money of ${waiting} is locked until ledger has compared it with the journal.`,
  ]
  return sentences.filter(sentence => sentence !== false).join(' ')
}
