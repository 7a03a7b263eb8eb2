import { describe, expect, it } from 'vitest'
import { createPipelineMonitor } from '../../../services/page/pipeline/figures.ts'
import { openPage, textOf } from '../../support/page/page-doubles.ts'

/** The page while processes report these metrics, or do not answer. */
async function read (...answers: readonly (string | undefined)[]) {
  const names = answers.map((_answer, index) => `http://p${index}/metrics`)
  const { signIn } = openPage({
    deps: {
      pipelineStatus: createPipelineMonitor({
        targets: names,
        targetsFile: '',
        find: async () => [],
        fetch: (async (target: string) => {
          const answer = answers[names.indexOf(target)]
          if (answer === undefined) throw new TypeError('fetch failed')
          return new Response(answer)
        }) as never,
      }),
    },
  })
  const { body } = await (await signIn('operator')).get('/mail-servers')
  const tables = new Map([...body.matchAll(
    /<caption class="unseen">([^<]+)<.*?<tbody>(.*?)<\/tbody>/gs)].map(([, name = '', rows = '']) =>
    [name, [...rows.matchAll(/<tr>(.*?)<\/tr>/gs)].map(([, row = '']) =>
      [...row.matchAll(/<t[hd][^>]*>(.*?)<\/t[hd]>/gs)]
        .map(([, cell = '']) => textOf(cell).trim()))]))
  return {
    text: textOf(body),
    owners: tables.get('Owners of mail servers'),
    egresses: tables.get('Egresses'),
  }
}

type Answers = { readonly verdict?: number, readonly block?: number, readonly other?: number }

/** What a process reports of an egress at an owner. */
const egress = (
  owner: string, name: string,
  { rate = 60, sessions = 0, resting = 0, ...answers }: Answers &
    { readonly rate?: number, readonly sessions?: number, readonly resting?: number }
) => {
  const labels = `owner="${owner}",egress="${name}"`
  return `
mailbox_egress_recipients_per_minute{${labels}} ${rate}
mailbox_egress_sessions{${labels}} ${sessions}
mailbox_egress_resting_seconds{${labels}} ${resting}
${Object.entries(answers).map(([outcome, number]) =>
  `mailbox_egress_recent_recipients{${labels},outcome="${outcome}"} ${number}\n`).join('')}`
}

describe('the page of mail servers', () => {
  it('has the figures of each egress at each owner, the busiest first', async () => {
    const { egresses } = await read(
      egress('example.net', 'a', { rate: 12.5, verdict: 3, other: 1 }) +
      egress('google', 'b<1>', { rate: 600, sessions: 4, verdict: 1_200, other: 300 }) +
      egress('google', 'a', { resting: 754, block: 20, verdict: 0 }))
    expect(egresses).toEqual([
      ['google', 'b&lt;1&gt;', 'asks', '600', '4', '1,500', '80 %', '0'],
      ['google', 'a', 'rests for 13 min', '60', '0', '20', '0 %', '20'],
      ['example.net', 'a', 'idle', '13', '0', '4', '75 %', '0'],
    ])
  })

  it.each([[0.4, '1 s'], [59, '59 s'], [61, '2 min'], [5_400, '1.5 h']])(
    'says of a rest of %d s that it takes %s', async (resting, text) => {
      const { egresses } = await read(egress('google', 'a', { resting }))
      expect(egresses).toMatchObject([{ 2: `rests for ${text}`, 5: '0', 6: '–' }])
    })

  it('counts what all processes know together once, and their own rows each', async () => {
    const late = egress('google', 'a', { verdict: 90, other: 10, sessions: 2 })
    const { owners, egresses } = await read(
      `${late}mailbox_rows_waiting{owner="google"} 1000\n`,
      `${egress('google', 'a', { verdict: 99, other: 11, sessions: 2 })}
mailbox_rows_waiting{owner="google"} 234\n`)
    expect(owners).toEqual([['google', '1,234', '0 of 1', '110', '90 %', '0']])
    expect(egresses).toMatchObject([{ 4: '2', 5: '110' }])
  })

  it('adds up the egresses of an owner, and puts those first for which rows wait', async () => {
    const { owners } = await read(
      egress('google', 'a', { verdict: 50, block: 50, resting: 60 }) +
      egress('google', 'b', { verdict: 100 }) +
      'mailbox_rows_waiting{owner="other"} 7\nmailbox_rows_waiting{owner="yahoo"} 0\n')
    expect(owners).toEqual([
      ['all others', '7', '–', '0', '–', '0'],
      ['google', '0', '1 of 2', '200', '75 %', '50'],
    ])
  })

  it('says when nothing was asked, and which processes do not answer', async () => {
    const { text } = await read('', undefined)
    expect(text).toContain('1 of 2 processes do not answer.')
    expect(text).toContain('No mail server was asked today')
    expect((await read()).text).toContain('set METRICS_TARGETS')
  })
})
