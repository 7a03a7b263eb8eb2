import { writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { createPipelineMonitor } from '../../../services/page/pipeline/figures.ts'
import { topology } from '../../../services/topology.ts'
import { newFolder } from '../../support/folder.ts'
import { openPage, textOf } from '../../support/page/page-doubles.ts'

const PARTITION = 'stage="normalize",group="normalize.small",topic="rows.submitted.small",' +
  'partition="0"'

/** Metrics of a process of normalize. */
const metrics = ({ offset = 0, lag = 0, rows = 0, age = 0.25, more = '' }) => `
# HELP consumer_offset Up to where
consumer_offset{${PARTITION}} ${offset}
consumer_lag_messages{${PARTITION}} ${lag}
stage_rows_total{lane="}\\"\\\\",stage="normalize",service="whatsapp"} ${rows}
stage_oldest_age_seconds{stage="normalize",group="normalize.small"} ${age}
other_total 7
${more}`

const linesIn = (part: string) =>
  [...part.matchAll(/<text [^>]*>([^<]*)</g)].map(([, line]) => line)

/** The texts and the tones of a page by names: of its tables, and of its drawing. */
function figuresIn (body: string) {
  const rows = [...body.matchAll(/<tr>(.*?)<\/tr>/gs)].map(([, row = '']) =>
    [...row.matchAll(/<t[hd][^>]*>(.*?)<\/t[hd]>/gs)].map(([, cell = '']) => textOf(cell).trim()))
  const texts = rows.flatMap(([stage, ...cells]) => {
    const [, kind, topic = ''] = [stage, ...cells]
    const names = cells.length === 3
      ? [`instances-${stage}`, `done-${stage}`, `age-${stage}`]
      : ['', '', ...['rate', 'lag'].map(name =>
          `${name}-${stage}-${kind}-${topic.replace('.', '-')}`)]
    return names.map((name, index) => [name, cells[index] ?? ''] as const)
  })
  const stages = [...body.matchAll(/<g id="stage-(\w+)"(.*?)<\/g>/gs)]
    .map(([, stage, part = '']) => [`${stage}-drawn`, linesIn(part)])
  const arrows = [...body.matchAll(/<path id="arrow-([\w-]+)"/g)].map(([, id]) => id)
  const labels = [...body.matchAll(/<g class="label">(.*?)<\/g>/gs)]
    .map(([, part = ''], index) => [`${arrows[index]}-drawn`, linesIn(part)])
  const tones = [...body.matchAll(/id="([\w-]+)"[^>]*data-tone="(\w+)"/g)]
    .map(([, ...pair]) => pair)
  const [, health = ''] = /<p class="hint">(.*?) Rates are averages/s.exec(body) ?? []
  return {
    texts: { ...Object.fromEntries([...texts, ...stages, ...labels]), health },
    tones: Object.fromEntries(tones),
  }
}

type Answers = Readonly<Record<string, string | undefined>>

/** The pipeline as operators see it while processes report these metrics, or do not answer. */
async function watch (answers: Answers) {
  const state = { ms: 0, answers, scraped: [] as string[] }
  const folder = newFolder('verification-jobs-pipeline-')
  const targetsFile = `${folder}/targets.json`
  const names = Object.keys(answers).map(name => `http://${name}/metrics`)
  writeFileSync(targetsFile, JSON.stringify(names.slice(1)))
  const { signIn } = openPage({
    deps: {
      pipelineStatus: createPipelineMonitor({
        targets: names.slice(0, 1),
        targetsFile,
        find: async () => [],
        fetch: (async (target: string) => {
          const name = new URL(target).host
          state.scraped.push(name)
          const answer = state.answers[name]
          if (answer === undefined) throw new TypeError('fetch failed')
          return new Response(answer)
        }) as never,
        now: () => state.ms,
      }),
    },
  })
  const { get } = await signIn('operator')
  const read = async () => figuresIn((await get('/pipeline')).body)
  await read()
  return {
    scraped: state.scraped,
    get,
    read,
    /** The figures after some time. */
    after: async (ms: number, later = answers) => {
      Object.assign(state, { ms: state.ms + ms, answers: later })
      return await read()
    },
  }
}

describe('the figures of the pipeline', () => {
  it('are rates between two polls, and lags of the later one', async () => {
    const { after } = await watch({
      a: metrics({ offset: 10, rows: 100 }), b: metrics({ offset: 10, rows: 40 }), c: undefined,
    })
    const { texts, tones } = await after(10_000, {
      a: metrics({ offset: 30, lag: 1_234, rows: 1_100, age: 11 }),
      b: metrics({ offset: 29, lag: 1_234, rows: 540 }),
    })
    expect(texts).toMatchObject({
      health: '1 of 3 processes do not answer.',
      // Two processes report the same partition, which counts once.
      'rate-normalize-reads-rows-submitted': '2.0 messages/s',
      'rate-ingest-writes-rows-submitted': '125 messages/s',
      'rate-lookup-reads-rows-normalized': '–',
      'lag-normalize-reads-rows-submitted': '1,234',
      'normalize-reads-rows-submitted-drawn': ['2.0 messages/s', 'lag 1,234'],
      'ingest-writes-rows-submitted-drawn': ['125 messages/s'],
      'lookup-reads-rows-normalized-drawn': ['', ''],
      'done-normalize': '150 rows/s',
      'normalize-drawn': ['normalize', '150 rows/s', 'oldest 11.0 s'],
      'instances-normalize': '2',
      'instances-verify': '–',
      'done-verify': '–',
      'age-verify': '–',
    })
    expect(tones).toMatchObject({
      'arrow-normalize-reads-rows-submitted': 'busy',
      'arrow-lookup-writes-rows-to-verify': 'idle',
      'stage-normalize': 'late',
      'stage-verify': 'fine',
    })
  })

  it('are those of no process where the file of their addresses has no list', async () => {
    const targetsFile = `${newFolder('verification-jobs-pipeline-')}/targets.json`
    writeFileSync(targetsFile, '{}')
    const { signIn } = openPage({
      deps: { pipelineStatus: createPipelineMonitor({ targets: [], targetsFile }) },
    })
    expect(await (await signIn('operator')).read('/pipeline')).toContain('set METRICS_TARGETS')
  })

  it('count no work for a process whose counters restarted', async () => {
    const { after } = await watch({ a: metrics({ rows: 900 }) })
    expect((await after(2_000, { a: metrics({ rows: 3 }) })).texts)
      .toMatchObject({ health: 'The process answers.', 'done-normalize': '0 rows/s' })
  })

  it('are read at most every two seconds, and are averages of the last twenty', async () => {
    const { after, read, scraped } = await watch({ a: metrics({}), b: undefined })
    await Promise.all([read(), after(1_999)])
    expect(scraped).toEqual(['a', 'b'])
    expect((await after(8_001, { a: metrics({ rows: 10_000 }) })).texts['done-normalize'])
      .toBe('1,000 rows/s')
    expect((await after(30_000)).texts['done-normalize']).toBe('–')
  })

  it.each([
    ['paused stages', 'stage_paused{stage="normalize"} 1\nstage_paused{stage="lookup"} 0\n',
      'Paused by operators: normalize.', 'paused', 'paused'],
    ['locked money of one tenant', 'tenants_waiting 1\n',
      'The money of 1 tenant is locked until ledger has compared it with the journal.', 'late',
      '0 rows/s'],
    ['locked money', 'tenants_waiting 1200\n',
      'The money of 1,200 tenants is locked until ledger has compared it with the journal.', 'late',
      '0 rows/s'],
  ])('name %s that one of the processes reports', async (_what, more, sentence, tone, done) => {
    const { after } = await watch({
      a: metrics({ age: 99, more }), b: metrics({ more: 'tenants_waiting 0\n' }),
    })
    const { texts, tones } = await after(2_000)
    expect(texts).toMatchObject({
      health: `All 2 processes answer. ${sentence}`,
      'done-normalize': done,
      'age-normalize': '99.0 s',
    })
    expect(tones).toMatchObject({ 'stage-normalize': tone, 'stage-lookup': 'fine' })
  })
})

describe('the drawing of the pipeline', () => {
  const arrows = Object.entries(topology.stages).flatMap(([stage, { reads, writes }]) => [
    ...reads.map(topic => `${stage}-reads-${topic.replace('.', '-')}`),
    ...writes.map(topic => `${stage}-writes-${topic.replace('.', '-')}`),
  ])

  it('has every read and write of the topology', async () => {
    const { get } = await watch({})
    const { body } = await get('/pipeline')
    expect([...body.matchAll(/id="arrow-([\w-]+)"/g)].map(([, id]) => id)).toEqual(arrows)
    expect(body).not.toMatch(/NaN|undefined/)
  })

  it('points upwards where a stage writes a topic that it reads, or one before', async () => {
    const { body } = await (await openPage().signIn('operator')).get('/pipeline')
    const upwards = [...body.matchAll(/id="arrow-([\w-]+)"[^>]+d="M\S+ (\S+?)C[^"]* ([\d.]+)"/g)]
      .filter(([, , from, to]) => Number(from) > Number(to)).map(([, id]) => id)
    expect(upwards).toEqual([
      'verify-writes-rows-retry', 'ledger-writes-wallet-journal', 'ledger-writes-job-keys',
      'ledger-writes-access-log', 'ledger-writes-jobs-settled', 'ledger-writes-jobs-events',
    ])
  })
})
