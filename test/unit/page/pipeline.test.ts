import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, describe, expect, it } from 'vitest'
import { STAGES, topology } from '../../../services/topology.ts'
import {
  ARROWS, readersOf, TOPICS, createPipelineMonitor, figuresOf, METRIC_NAMES, type Snapshot,
} from '../../../services/page/pipeline/figures.ts'
import { diagram, renderDiagram } from '../../../services/page/pipeline/drawing.ts'
import { textsOf, tonesOf } from '../../../services/page/pipeline/page.ts'
import { readSamples } from '../../../services/runtime/platform/metrics-reader.ts'
import { METRICS } from '../../../services/runtime/platform/metric-list.ts'

const folder = mkdtempSync(`${tmpdir()}/verification-jobs-flows-`)
afterAll(() => rmSync(folder, { recursive: true }))

type Reported = {
  readonly offset: number
  readonly lag: number
  readonly rows: number
  readonly age?: number
}

const PARTITION = 'stage="normalize",group="normalize.small",topic="rows.submitted.small",' +
  'partition="0"'

/** Metrics of a ledger about one partition, and of normalize about itself. */
const metrics = ({ offset, lag, rows, age = 0.25 }: Reported) => `
# HELP consumer_offset Up to where
consumer_offset{${PARTITION}} ${offset}
consumer_lag_messages{${PARTITION}} ${lag}
stage_rows_total{stage="normalize",lane="small",service="whatsapp"} ${rows}
stage_oldest_age_seconds{stage="normalize",group="normalize.small"} ${age}
other_total 7
`

const snapshot = (atMs: number, texts: Readonly<Record<string, string>>): Snapshot => ({
  atMs,
  byTarget: new Map(Object.entries(texts).map(([target, text]) =>
    [target, readSamples(text, METRIC_NAMES)])),
})

describe('the arrows of the diagram', () => {
  it('are the reads and writes of the topology', () => {
    const wanted = Object.values(topology.stages)
      .reduce((sum, { reads, writes }) => sum + reads.length + writes.length, 0)
    expect(ARROWS).toHaveLength(wanted)
    expect(new Set(ARROWS.map(({ id }) => id)).size).toBe(wanted)
    expect(ARROWS.filter(({ isBackward }) => isBackward).map(({ id }) => id)).toEqual([
      'verify-writes-rows-retry', 'ledger-writes-wallet-journal', 'ledger-writes-job-keys',
      'ledger-writes-access-log', 'ledger-writes-jobs-settled', 'ledger-writes-jobs-events',
    ])
    expect(readersOf('jobs.settled')).toEqual(['deliver', 'publish'])
  })
})

describe('metrics in text format', () => {
  it('are parsed for the requested names only', () => {
    const samples = readSamples('a_total{x="1\\"2",y="}"} 3.5\na_total 1e3\nb 2\n# a_total 9',
      new Set(['a_total']))
    expect(samples).toEqual([
      { name: 'a_total', labels: { x: '1"2', y: '}' }, value: 3.5 },
      { name: 'a_total', labels: {}, value: 1_000 },
    ])
  })

  it('have names from the list of metrics', () => {
    const known = new Set<string>(METRICS.map(({ name }) => name))
    expect([...METRIC_NAMES].filter(name => !known.has(name))).toEqual([])
  })
})

describe('the figures of the pipeline', () => {
  it('are rates between two snapshots and lags of the later one', () => {
    const { arrows, stages } = figuresOf(
      snapshot(0, {
        a: metrics({ offset: 10, lag: 0, rows: 100 }), b: metrics({ offset: 10, lag: 0, rows: 40 }),
      }),
      snapshot(10_000, {
        a: metrics({ offset: 30, lag: 5, rows: 1_100 }),
        b: metrics({ offset: 29, lag: 5, rows: 540 }),
      }))
    // Two ledgers report the same partition, which counts once.
    expect(arrows.get('normalize-reads-rows-submitted'))
      .toEqual({ messagesPerSecond: 2, lagMessages: 5 })
    expect(arrows.get('ingest-writes-rows-submitted'))
      .toEqual({ messagesPerSecond: 2.5, lagMessages: undefined })
    expect(arrows.get('lookup-reads-rows-normalized'))
      .toEqual({ messagesPerSecond: undefined, lagMessages: undefined })
    expect(stages.get('normalize'))
      .toEqual({ instances: 2, perSecond: 150, oldestSeconds: 0.25, isPaused: false })
    expect(stages.get('verify'))
      .toEqual({
        instances: 0, perSecond: undefined, oldestSeconds: undefined, isPaused: false,
      })
  })

  it('count no work for a process whose counters restarted', () => {
    const { stages } = figuresOf(
      snapshot(0, { a: metrics({ offset: 1, lag: 0, rows: 900 }) }),
      snapshot(1_000, { a: metrics({ offset: 1, lag: 0, rows: 3 }) }))
    expect(stages.get('normalize')?.perSecond).toBe(0)
  })
})

describe('the pipeline monitor', () => {
  it('polls at most every two seconds and counts unreachable endpoints', async () => {
    writeFileSync(`${folder}/targets.json`, JSON.stringify(['http://b/metrics']))
    const clock = { ms: 0 }
    const scraped: string[] = []
    const fetch = async (target: string) => {
      scraped.push(target)
      if (target.startsWith('http://b')) throw new TypeError('fetch failed')
      return new Response(metrics({ offset: clock.ms / 1_000, lag: 0, rows: clock.ms }))
    }
    const pipelineStatus = createPipelineMonitor({
      targets: ['http://a/metrics'],
      find: async () => [],
      targetsFile: `${folder}/targets.json`,
      fetch: fetch as never,
      now: () => clock.ms,
    })
    await Promise.all([pipelineStatus(), pipelineStatus()])
    clock.ms = 1_999
    await pipelineStatus()
    expect(scraped).toEqual(['http://a/metrics', 'http://b/metrics'])
    clock.ms = 10_000
    const { figures, targets, unreachable } = await pipelineStatus()
    expect([targets, unreachable]).toEqual([2, 1])
    expect(figures.stages.get('normalize')?.perSecond).toBe(1_000)
    expect(figures.arrows.get('normalize-reads-rows-submitted')?.messagesPerSecond).toBe(1)
    // Rates are averages of the last 20 s.
    clock.ms = 40_000
    expect((await pipelineStatus()).figures.stages.get('normalize')?.perSecond).toBeUndefined()
  })
})

describe('the drawing of the pipeline', () => {
  const figures = figuresOf(
    snapshot(0, { a: metrics({ offset: 10, lag: 0, rows: 0 }) }),
    snapshot(10_000, { a: metrics({ offset: 12, lag: 1_234, rows: 90, age: 11 }) }))
  const status = { figures, targets: 10, unreachable: 1 }

  it('shows the figures as text', () => {
    const texts = textsOf(status)
    expect(texts).toMatchObject({
      health: '1 of 10 processes do not answer.',
      'rate-normalize-reads-rows-submitted': '0.2 messages/s',
      'lag-normalize-reads-rows-submitted': '1,234',
      'lag-normalize-reads-rows-submitted-drawn': 'lag 1,234',
      'done-normalize': '9.0 rows/s',
      'age-normalize-drawn': 'oldest 11.0 s',
      'instances-verify': '–',
    })
    expect(tonesOf(status)).toMatchObject({
      'arrow-normalize-reads-rows-submitted': 'busy',
      'arrow-lookup-writes-rows-to-verify': 'idle',
      'stage-normalize': 'late',
      'stage-verify': 'fine',
    })
  })

  it('shows paused stages by text and by color', () => {
    const text = `${metrics({ offset: 12, lag: 9, rows: 0, age: 99 })}` +
      'stage_paused{stage="normalize"} 1\nstage_paused{stage="lookup"} 0\n'
    // One process may report the pause earlier than the other.
    const other = metrics({ offset: 12, lag: 9, rows: 0 })
    const reported = snapshot(0, { a: text, b: other })
    const paused = { figures: figuresOf(reported, reported), targets: 10, unreachable: 0 }
    expect(textsOf(paused)).toMatchObject({
      health: 'All 10 processes answer. Paused by operators: normalize.',
      'done-normalize': 'paused',
      'age-normalize': '99.0 s',
    })
    expect(tonesOf(paused)).toMatchObject({ 'stage-normalize': 'paused', 'stage-lookup': 'fine' })
  })

  it('shows how many tenants have locked money, and nothing for none', () => {
    const healthWith = (tenants: number) => {
      // Only the leading ledger counts them.
      const reported = snapshot(0, { a: `tenants_waiting ${tenants}\n`, b: 'tenants_waiting 0\n' })
      const figures = figuresOf(reported, reported)
      return textsOf({ figures, targets: 2, unreachable: 0 })['health']
    }
    expect([0, 1, 1_200].map(healthWith)).toEqual([
      'All 2 processes answer.',
      'All 2 processes answer. ' +
        'The money of 1 tenant is locked until ledger has compared it with the journal.',
      'All 2 processes answer. ' +
        'The money of 1,200 tenants is locked until ledger has compared it with the journal.',
    ])
  })

  it('has every stage, topic and arrow within its bounds', () => {
    const boxes = [...diagram.stages.values(), ...diagram.topics.values()]
    expect(boxes).toHaveLength(STAGES.length + TOPICS.length)
    for (const { x, y, width, height } of boxes) {
      expect(x - width / 2).toBeGreaterThanOrEqual(0)
      expect(x + width / 2).toBeLessThanOrEqual(diagram.width)
      expect(y + height / 2).toBeLessThanOrEqual(diagram.height)
    }
    const { html } = renderDiagram(textsOf(status), tonesOf(status))
    for (const { id } of ARROWS) expect(html).toContain(`id="arrow-${id}"`)
    expect(html).toContain('data-text="lag-normalize-reads-rows-submitted-drawn">lag 1,234<')
    expect(html).not.toMatch(/NaN|undefined/)
  })
})
