import type { RouteOptions } from 'fastify'
import { STAGES, type StageName } from '../../topology.ts'
import type { PageDeps } from '../context.ts'
import { count, html, type Html } from '../html.ts'
import { operatorRoute, table } from '../layout.ts'
import {
  type Arrow, ARROWS, type Figures, missingText, type PipelineStatus, stageMetrics, TOPICS,
} from './figures.ts'
import { Graph, layout } from '@dagrejs/dagre'

/** The page of the pipeline for operators: a drawing, and the same as tables. */
export function pipelineRoute (deps: PageDeps): RouteOptions {
  return operatorRoute(deps, '/pipeline', pipelineView)
}

function pipelineView (status: PipelineStatus): Html {
  const { figures } = status
  const stages = figures.stages.map(toStageTexts)
  const arrows = figures.arrows.map(toArrowTexts)
  const number = <Row>(text: string, cell: (row: Row) => string) => ({ text, isNumber: true, cell })
  return html`
    <p class="hint">${healthText(status)} Rates are averages of the last 20 seconds. The rate
      of writing to a topic includes all its writers.</p>
    <div class="table drawing" role="region" aria-label="Drawing of the pipeline" tabindex="0">
      ${draw(diagram, {
        stages: new Map(stages.map(({ stage, work, age }) =>
          [stage, [work, drawnText('oldest ', age)]])),
        arrows: new Map(arrows.map(({ id, kind, rate, lag }) =>
          [id, [drawnText('', rate), ...kind === 'reads' ? [drawnText('lag ', lag)] : []]])),
        tones: chooseTones(figures),
        label: ON_PAGE,
        style: '',
      })}
    </div>
    <section><h2>Stages</h2>
      ${table('Stages', stages, [
        { text: 'Stage', isHeader: true, cell: ({ stage }) => stage },
        number('Instances', ({ instances }) => instances),
        number('Work', ({ work }) => work),
        number('Oldest message', ({ age }) => age),
      ])}
    </section>
    <section><h2>Topics</h2>
      ${table('Topics', arrows, [
        { text: 'Stage', isHeader: true, cell: ({ stage }) => stage },
        { text: 'Does', cell: ({ kind }) => kind },
        { text: 'Topic', cell: ({ topic }) => html`<code>${topic}</code>` },
        number('Rate', ({ rate }) => rate),
        number('Lag', ({ lag }) => lag),
      ])}
    </section>`
}

/** A stage with an older message is late. */
const LATE_SECONDS = 10
const NO_VALUE = '–'

/** The texts of a stage in the tables. */
function toStageTexts (
  { stage, instances, perSecond, oldestSeconds, isPaused }: Figures['stages'][number]
) {
  return {
    stage,
    instances: instances === 0 ? NO_VALUE : count(instances),
    work: isPaused ? 'paused' : rateText(perSecond, stageMetrics(stage).unit),
    age: oldestSeconds === undefined ? NO_VALUE : `${Math.max(0, oldestSeconds).toFixed(1)} s`,
  }
}

/** The texts of an arrow in the tables. */
function toArrowTexts (
  { messagesPerSecond, lagMessages, ...arrow }: Figures['arrows'][number]
) {
  return {
    ...arrow,
    rate: rateText(messagesPerSecond, 'messages/s'),
    lag: lagMessages === undefined ? NO_VALUE : count(lagMessages),
  }
}

/** A text in the drawing, which has no headings and leaves out what has no value. */
const drawnText = (before: string, text: string) => text === NO_VALUE ? '' : `${before}${text}`

/** The colors of arrows and stages by element: busy arrows, and paused or late stages. */
function chooseTones ({ arrows, stages }: Figures): Look['tones'] {
  return Object.fromEntries([
    ...arrows.map(({ id, messagesPerSecond = 0 }) =>
      [`arrow-${id}`, messagesPerSecond > 0 ? 'busy' : 'idle']),
    ...stages.map(({ stage, isPaused, oldestSeconds = 0 }) =>
      [`stage-${stage}`, isPaused ? 'paused' : oldestSeconds > LATE_SECONDS ? 'late' : 'fine']),
  ])
}

function rateText (perSecond: number | undefined, unit: string): string {
  if (perSecond === undefined) return NO_VALUE
  const isSmall = perSecond > 0 && perSecond < 10
  return `${isSmall ? perSecond.toFixed(1) : count(Math.round(perSecond))} ${unit}`
}

/** Whether all processes answer, which stages are paused, and whose money is locked. */
function healthText (status: PipelineStatus): string {
  const { targets, figures: { stages, tenantsWaiting } } = status
  const paused = stages.filter(({ isPaused }) => isPaused).map(({ stage }) => stage)
  const waiting = tenantsWaiting === 1 ? '1 tenant' : `${count(tenantsWaiting)} tenants`
  const sentences = [
    missingText(status) ||
      (targets === 1 ? 'The process answers.' : `All ${targets} processes answer.`),
    paused.length > 0 && `Paused by operators: ${paused.join(', ')}.`,
    tenantsWaiting > 0 &&
      `The money of ${waiting} is locked until ledger has compared it with the journal.`,
  ]
  return sentences.filter(sentence => sentence !== false).join(' ')
}

type Point = { readonly x: number, readonly y: number }
type Box = Point & { readonly width: number, readonly height: number }
type Diagram = {
  readonly width: number
  readonly height: number
  readonly stages: ReadonlyMap<string, Box>
  readonly topics: ReadonlyMap<string, Box>
  readonly arrows: readonly DiagramArrow[]
}
type DiagramArrow = {
  readonly arrow: Arrow
  readonly points: readonly Point[]
  readonly label: Point
}

const STAGE_SIZE = { width: 150, height: 66 }
const TOPIC_SIZE = { width: 140, height: 30 }
const LABEL_SIZE = { width: 104, height: 32 }
const NO_LABEL_SIZE = { width: 14, height: 4 }
const LINE = 15
const CORNER = 16

/** The layout of the topology, computed once. */
const diagram: Diagram = layOut(LABEL_SIZE)

/** The description of the drawing on the page. */
const ON_PAGE = 'The pipeline: stages, topics, and the rate of each arrow. The tables below ' +
  'contain the same figures.'

/**
 * The topology as a file of SVG: with two lines of text in each stage, without labels at the
 * arrows, and with its style in itself.
 */
export function renderPicture (
  stages: Readonly<Record<StageName, readonly string[]>>, label: string, style: string
): string {
  const look = {
    stages: new Map(Object.entries(stages)), arrows: new Map(), tones: {}, label, style,
  }
  return `${draw(layOut(NO_LABEL_SIZE), look).html}\n`
}

type Look = {
  /** The lines in each stage, below its name. */
  readonly stages: ReadonlyMap<string, readonly string[]>
  /** The lines at arrows by their ids. */
  readonly arrows: ReadonlyMap<string, readonly string[]>
  /** By element. */
  readonly tones: Readonly<Record<string, string>>
  readonly label: string
  readonly style: string
}

function draw (diagram: Diagram, { stages, arrows, tones, label, style }: Look): Html {
  return html`<svg xmlns="http://www.w3.org/2000/svg" class="pipeline"
    viewBox="0 0 ${diagram.width} ${diagram.height}" width="${diagram.width}"
    height="${diagram.height}" role="img" aria-label="${label}">
    ${style !== '' && html`<style>${style}</style>`}
    <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="10"
      markerHeight="10" markerUnits="userSpaceOnUse" orient="auto-start-reverse">
      <path d="M0 0L8 4L0 8z"/></marker></defs>
    ${diagram.arrows.map(({ arrow, points }) => html`
      <path id="arrow-${arrow.id}" class="arrow" data-tone="${tones[`arrow-${arrow.id}`]}"
        marker-end="url(#head)" d="${drawCurve(points)}"/>`)}
    ${[...diagram.topics].map(([name, box]) => html`<g class="topic">${rect(box, box.height / 2)}
      ${title(box, name)}</g>`)}
    ${[...diagram.stages].map(([name, box]) => html`
      <g id="stage-${name}" class="stage" data-tone="${tones[`stage-${name}`]}">${rect(box, 8)}
        ${title(below(box, -1.1), name)}
        ${(stages.get(name) ?? []).map((line, index) => text(below(box, 0.1 + index), line))}</g>`)}
    ${diagram.arrows.map(({ arrow, label }) => {
      const lines = arrows.get(arrow.id)
      return lines && html`<g class="label">${lines.map((line, index) =>
        text(below(label, index - (lines.length - 1) / 2), line))}</g>`
    })}
  </svg>`
}

function rect ({ x, y, width, height }: Box, radius: number): Html {
  return html`<rect x="${x - width / 2}" y="${y - height / 2}" width="${width}" height="${height}"
    rx="${radius}"/>`
}

/** The name of a stage or topic. */
function title ({ x, y }: Point, content: string): Html {
  return html`<text class="name" x="${x.toFixed(1)}" y="${y.toFixed(1)}">${content}</text>`
}

function text ({ x, y }: Point, content: string): Html {
  return html`<text x="${x.toFixed(1)}" y="${y.toFixed(1)}">${content}</text>`
}

const below = ({ x, y }: Point, lines: number): Point => ({ x, y: y + lines * LINE })

/** A curve through all points that is vertical at each of them. */
function drawCurve ([first, ...rest]: readonly Point[]): string {
  if (first === undefined) return ''
  let before = first
  const bends = rest.map(point => {
    const half = ((before.y + point.y) / 2).toFixed(1)
    const [x, nextX] = [before.x.toFixed(1), point.x.toFixed(1)]
    before = point
    return `C${x} ${half} ${nextX} ${half} ${nextX} ${point.y.toFixed(1)}`
  })
  return `M${first.x.toFixed(1)} ${first.y.toFixed(1)}${bends.join('')}`
}

function layOut (labelSize: Omit<Box, 'x' | 'y'>): Diagram {
  const graph = new Graph({ multigraph: true })
  graph.setGraph({ rankdir: 'TB', nodesep: 26, ranksep: 26, edgesep: 14, marginx: 8, marginy: 8 })
  for (const stage of STAGES) graph.setNode(`stage ${stage}`, { ...STAGE_SIZE })
  for (const topic of TOPICS) graph.setNode(`topic ${topic}`, { ...TOPIC_SIZE })
  for (const arrow of ARROWS) {
    const [upper = '', lower = ''] = downwards(arrow)
    graph.setEdge(upper, lower, { ...labelSize, labelpos: 'c' }, arrow.id)
  }
  layout(graph)
  const box = (name: string) => graph.node(name) as unknown as Box
  const boxes = (kind: string, names: readonly string[]) =>
    new Map(names.map(name => [name, box(`${kind} ${name}`)]))
  const { width = 0, height = 0 } = graph.graph() as { width?: number, height?: number }
  return {
    width: Math.ceil(width),
    height: Math.ceil(height),
    stages: boxes('stage', STAGES),
    topics: boxes('topic', TOPICS),
    arrows: ARROWS.map(arrow => {
      const [upper = '', lower = ''] = downwards(arrow)
      const { points, x, y } = graph.edge({ v: upper, w: lower, name: arrow.id }) as unknown as
        Point & { readonly points: readonly Point[] }
      const down = [
        onBorder(box(upper), points[0], 1),
        ...points.slice(1, -1),
        onBorder(box(lower), points.at(-1), -1),
      ]
      return { arrow, points: arrow.isBackward ? down.toReversed() : down, label: { x, y } }
    }),
  }
}

/** The upper and the lower end of an arrow in the layout. Backward arrows are reversed. */
function downwards ({ stage, topic, kind, isBackward }: Arrow): readonly string[] {
  const ends = [`topic ${topic}`, `stage ${stage}`]
  return (kind === 'reads') === isBackward ? ends.toReversed() : ends
}

/** Attaches an arrow to the bottom (1) or the top (-1) of a box, away from the corners. */
function onBorder (box: Box, { x } = { x: box.x }, side: 1 | -1): Point {
  const maxOffset = box.width / 2 - CORNER
  const nearX = Math.min(box.x + maxOffset, Math.max(box.x - maxOffset, x))
  return { x: nearX, y: box.y + side * box.height / 2 }
}
