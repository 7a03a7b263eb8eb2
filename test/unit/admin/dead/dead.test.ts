import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { RawMessage } from '../../../../services/runtime/kafka/bus.ts'
import { decisionMessage } from '../../../../services/runtime/engine/dead-letters.ts'
import { ConfigError } from '../../../../services/runtime/platform/config.ts'
import { UsageError } from '../../../../services/runtime/platform/run-command.ts'
import { type LetterList, withDeadLetters } from '../../../../services/admin/dead/letters.ts'
import { runCommand } from '../../../support/admin.ts'
import { DEAD_AT_MS, liveMessage, memoryDead, NOW_MS } from './memory-dead.ts'

const live = liveMessage()

let dead = memoryDead()
beforeEach(() => { dead = memoryDead() })
afterEach(() => { process.exitCode = undefined })

/** What `dead` and these words print. */
const run = (...words: readonly string[]) => runCommand(['dead', ...words], {
  letters: async (_env, work) => await work(dead.deps),
})
const json = async <T>(...words: readonly string[]): Promise<T> =>
  JSON.parse(await run(...words, '--json'))
const lettersIn = async (...words: readonly string[]) =>
  (await json<LetterList>('list', ...words)).letters
type Replay = { readonly letters: readonly object[], readonly remaining: number }
const replay = (letter: string, ...words: readonly string[]) =>
  json<Replay>('replay', 'verify', letter, '--wait', '0', ...words)
const summary = {
  stage: 'verify',
  letter: '0:0',
  reason: 'seal_broken',
  deadAt: '2026-01-02T03:04:05.000Z',
  ageSeconds: 90,
  tenant: 'org_a.live',
  job: 'job_a',
  service: 'whatsapp',
  rows: 3,
  bytes: 19,
  from: 'rows.to-verify.small.whatsapp 3:55',
  decision: null,
}
const rawWith = (headers: RawMessage['headers']): RawMessage =>
  ({ ...liveMessage(), topic: 'verify.dead', partition: 0, offset: 0n, value: null, headers })

describe('a list of dead letters', () => {
  it('has everything of the waiting letters except their content', async () => {
    dead.die('verify', 'seal_broken')
    dead.die('settle', 'undecodable', { topic: 'rows.completed.small' })
    dead.die('verify', 'undecodable')
    const { waiting, letters } = await json<LetterList>('list')
    expect(waiting).toEqual({
      feed: 0, normalize: 0, lookup: 0, verify: 2, settle: 1, deliver: 0, publish: 0, ledger: 0,
    })
    expect(letters.map(({ stage, letter }) => `${stage} ${letter}`))
      .toEqual(['verify 0:0', 'verify 0:1', 'settle 0:0'])
    expect(letters[0]).toEqual(summary)
  })

  it('has decided letters, with their last decision, only on request', async () => {
    dead.die('verify', 'seal_broken')
    const decided = (action: 'replayed' | 'ignored' | 'discarded', atMs: number, reason = '') =>
      decisionMessage('verify', { position: '0:0', decision: { action, atMs, reason } })
    await dead.deps.send([decided('ignored', DEAD_AT_MS)])
    expect(await lettersIn()).toHaveLength(1)
    await dead.deps.send([decided('discarded', NOW_MS, 'w')])
    expect(await lettersIn()).toEqual([])
    const decision = { action: 'discarded', at: '2026-01-02T03:05:35.000Z', reason: 'w', count: 2 }
    expect(await lettersIn('--all')).toEqual([{ ...summary, decision }])
  })

  it('is a table for people', async () => {
    dead.die('verify', 'seal_broken')
    dead.die('verify', '', { headers: {} })
    await run('discard', 'verify', '0:0', '--reason', 'a test')
    expect((await run('list', '--stage', 'verify', '--all')).replaceAll(/ +/g, ' ').split('\n'))
      .toEqual([
        'waiting: verify 1',
        'stage letter reason age tenant job rows from decision',
        'verify 0:0 seal_broken 1 min org_a.live job_a 3 rows.to-verify.small.whatsapp 3:55 ' +
          'discarded 2026-01-02T03:05:35.000Z: a test',
        'verify 0:1 unknown 1 min unknown unknown 0 rows.to-verify.small.whatsapp 3:55 -',
      ])
    expect(await run('list', '--stage', 'settle')).toBe('waiting: settle 0')
  })

  it.each([
    ['without any header', {}, { reason: '', tenant: '', job: '', from: ' :', deadAt: null }],
    ['with a decision that its sender forged',
      { done_of: '0:12', done_as: 'discarded', dead_stage: 'verify' }, { decision: null }],
    ['with a decision of an unknown kind', { done_of: '0:0', done_as: 'forgotten' }, {}],
  ])('has a message %s', async (_, headers, expected) => {
    dead.topics.set('verify.dead', [rawWith(headers)])
    expect(await lettersIn()).toMatchObject([{ rows: 0, bytes: 0, ageSeconds: null, ...expected }])
  })
})

describe('a dead letter', () => {
  it('is shown without its content, which needs --open', async () => {
    dead.die('verify', 'seal_broken')
    dead.reports.push({ action: 'ignored', reason: 'why' })
    await replay('0:0')
    const shown = await json<object>('show', 'verify', '0:0')
    expect(shown).toEqual({
      ...summary,
      decision: { action: 'ignored', at: '2026-01-02T03:05:35.000Z', reason: 'why', count: 1 },
      rowsOfJob: '11-12, 14',
      jobStatus: 'org_a.live job_a',
      replayEffect: 'r',
      history: [{ action: 'ignored', at: '2026-01-02T03:05:35.000Z', reason: 'why' }],
      headers: expect.objectContaining({ dead_reason: 'seal_broken', rows: '4 bytes' }),
      keyBytes: 9,
      envelope: { chunk: 1 },
    })
    expect(await run('show', 'verify', '0:0', '--open')).toMatch(new RegExp(
      '^warning: This output contains [^]+\nenvelope: \\{\n {2}"chunk": 1\n\\}\n' +
      'content: sealed \\+12127365000$'))
  })

  it('of a feed is a contact without a job', async () => {
    dead.die('feed', 'undecodable', { topic: 'feeds.acme.submitted', headers: {} })
    expect(await json('show', 'feed', '0:0')).toMatchObject({
      jobStatus: 'no job',
      rowsOfJob: 'unknown',
      replayEffect: expect.stringMatching(/^adds the contact to the feed, unless an earlier/),
    })
  })

  it('is opened with the root keys alone', async () => {
    const env = {
      SCHEMA_REGISTRY_URL: 'http://localhost:1',
      REDIS_STATE_URL: 'redis://localhost:1',
      KAFKA_BROKERS: 'localhost:1',
      MESSAGE_KEYS: JSON.stringify({ 1: Buffer.alloc(32).toString('base64') }),
      MESSAGE_KEY_ACTIVE: '1',
    }
    const opened = withDeadLetters(env, ({ inspect }) => inspect(true, async () => 1))
    await expect(opened).rejects.toThrow(ConfigError)
    await expect(opened).rejects.toThrow('RESULTS_ROOT_KEYS is missing')
    expect(await withDeadLetters(env, ({ inspect }) => inspect(false, inspector =>
      inspector.content(undefined as never)))).toBeUndefined()
    await expect(withDeadLetters({}, async () => 1)).rejects.toThrow('KAFKA_BROKERS is missing')
  })
})

describe('a replay of dead letters', () => {
  it('sends the original message, and waits for the report of the stage', async () => {
    dead.die('verify', 'a')
    dead.die('verify', 'b', { value: Buffer.from('second') })
    dead.reports.push({ action: 'replayed', reason: 'taken' })
    dead.jobs.set('job_a', { status: 'completed', ended: true, chargedMicros: 3_000 })
    const taken = {
      letter: '0:1',
      outcome: 'taken',
      reason: 'taken',
      job: 'job_a',
      jobStatus: 'completed',
      jobChargedMicros: 3_000,
    }
    expect(await replay('0:1')).toEqual({ stage: 'verify', letters: [taken], remaining: 0 })
    // The command itself records nothing: a letter leaves the list when its stage reports.
    expect(dead.sends).toEqual([[{
      topic: live.topic,
      key: String(live.key),
      value: Buffer.from('second'),
      headers: { ...live.headers, replay_of: '0:1' },
      partition: 3,
    }]])
    expect((await lettersIn('--stage', 'verify')).map(({ letter }) => letter)).toEqual(['0:0'])
    await expect(replay('0:1')).rejects
      .toThrow('Letter 0:1 of verify was already replayed at 2026-01-02T03:05:35')
    expect(dead.topics.get(live.topic)).toHaveLength(1)
    expect(await run('replay', 'verify', '0:1', '--again'))
      .toBe('verify 0:1: taken, job job_a, completed, charged 3000 micros')
    expect(dead.topics.get(live.topic)).toHaveLength(2)
  })

  it.each([
    [undefined, 'not taken yet; the letter waits until its stage reports.', 1],
    ['ignored why', 'ignored, why; the letter still waits', 1],
    ['replayed dead again: undecodable', 'dead again, undecodable; it is a new letter', 1],
    ['replayed answered: checks_unavailable', 'answered, checks_unavailable', undefined],
  ] as const)('with the report "%s" says so in text and exit code', async (report, text, code) => {
    dead.die('verify', 'a')
    if (report !== undefined) {
      const [action, ...reason] = report.split(' ')
      dead.reports.push({ action: action as 'replayed', reason: reason.join(' ') })
    }
    expect(await run('replay', 'verify', '0:0', '--wait', '0')).toContain(`verify 0:0: ${text}`)
    expect(process.exitCode).toBe(code)
    expect(await lettersIn()).toHaveLength(report?.startsWith('replayed') === true ? 0 : 1)
    expect(dead.asked).toEqual([])
  })

  it('shows its progress on a terminal', async () => {
    dead.die('verify', 'a')
    dead.reports.push({ action: 'replayed', reason: 'taken' })
    const errors = Object.assign(new PassThrough(), { isTTY: true })
    await runCommand('dead replay verify 0:0', {
      errors, letters: async (_env, work) => await work(dead.deps),
    })
    errors.end()
    expect(await text(errors)).toBe('1 sent, 0 reported\n1 sent, 1 reported\n')
  })

  it('keeps the partition, the offset and the time of a contact of a feed', async () => {
    const topic = 'feeds.acme.submitted'
    const headers = { replay_of: '9:9', replay_offset: '1', mine: 'x' }
    dead.die('feed', 'undecodable', { topic, partition: 2, headers })
    dead.reports.push({ action: 'replayed', reason: 'taken by a job', job: 'job_9' })
    const { letters } = await json<Replay>('replay', 'feed', '0:0')
    expect(dead.sends).toMatchObject([[{ topic, partition: 2 }]])
    expect(dead.sends[0]?.[0]?.headers).toEqual({
      mine: 'x',
      replay_of: '0:0',
      replay_offset: '55',
      replay_dead_at: String(DEAD_AT_MS),
      replay_at: String(NOW_MS),
    })
    expect(letters).toMatchObject([{ outcome: 'taken', job: 'job_9' }])
    expect(dead.asked).toEqual([{ tenant: '', topic, job: 'job_9' }])
  })

  it('of several needs --yes and keeps the limit', async () => {
    dead.reports.push({ action: 'replayed', reason: 'taken' })
    for (const reason of ['a', 'a', 'b', 'a']) dead.die('verify', reason)
    await run('discard', 'verify', '0:0', '--reason', 'not needed')
    const some = ['replay', 'verify', '--reason', 'a', '--limit', '1']
    await expect(run(...some)).rejects.toThrow(
      '1 letter of verify would be replayed (1 more are beyond --limit). Add --yes to confirm.')
    expect(await run(...some, '--yes')).toBe('verify 0:1: taken, job job_a\n' +
      '1 more letters match. Run the command again for the next ones.')
    expect(await json(...some, '--yes'))
      .toMatchObject({ letters: [{ letter: '0:3' }], remaining: 0 })
    await expect(run(...some, '--yes')).rejects.toThrow('No waiting letter of verify matches.')
  })

  it.each(['rows.completed.small', 'wallet.journal', 'verify.dead', 'feeds.acme.submitted', 'any'])(
    'sends nothing when a letter came from %s, which the stage does not read', async topic => {
      dead.die('verify', 'a', { topic: 'rows.retry.bulk.telegram' })
      dead.die('verify', 'a', { topic })
      await expect(run('replay', 'verify', '--yes')).rejects
        .toThrow(`Letter 0:1 came from topic "${topic}", which verify does not read`)
      expect(dead.sends).toEqual([])
    })

  it('sends nothing of a letter without its content', async () => {
    dead.die('feed', 'undecodable', { topic: 'feeds.acme.submitted' })
    const [letter] = dead.topics.get('feed.dead') ?? []
    Object.assign(letter!.headers, { dead_value: 'left out, too large' })
    await expect(run('replay', 'feed', '0:0')).rejects.toThrow('Letter 0:0 has no content')
    expect(dead.sends).toEqual([])
  })
})

it('a discarded dead letter is recorded with the reason and sent nowhere', async () => {
  for (const reason of ['a', 'b', 'a', 'a']) dead.die('verify', reason)
  const words = ['discard', 'verify', '--reason', ' a test ', '--died-of', 'a', '--yes']
  expect(await json<object>(...words, '--limit', '1'))
    .toEqual({ stage: 'verify', action: 'discarded', letters: ['0:0'], remaining: 2 })
  expect(await run(...words)).toBe('verify: discarded 0:2, 0:3')
  expect([...dead.topics.keys()]).toEqual(['verify.dead'])
  expect((await lettersIn('--all')).map(({ decision }) => decision?.reason))
    .toEqual(['a test', undefined, 'a test', 'a test'])
})

it.each<readonly [string, string]>([
  ['list --stage ingest', 'no dead letters. The stages with dead letters are: feed, normalize,'],
  ['show verify 0:1', 'Letter 0:1 does not exist in verify.dead'],
  ['replay verify 0:7', 'Letter 0:7 does not exist in verify.dead'],
  ...['12', '0:', 'a:1', '0:1:2'].map(position =>
    [`replay verify ${position}`, `${position} is not the position of a letter`] as const),
  ['replay verify 0:0 --job j', 'Use either the position 0:0 or filter options, not both.'],
  ['replay verify', 'No letter is selected.'],
  ...['0', '-1', 'x', '1.5'].map(limit =>
    [`replay verify 0:0 --limit=${limit}`, `--limit ${limit} is not an integer from 1.`] as const),
  ['replay verify 0:0 --wait x', '--wait x is not a number of seconds from 0.'],
  ['discard verify 0:0 --reason=', '--reason is empty. Use --reason "text".'],
])('"dead %s" is refused: %s', async (words, message) => {
  dead.die('verify', 'a')
  // The position of a decision is none of a letter.
  await dead.deps.send([decisionMessage('verify', {
    position: '0:0', decision: { action: 'ignored', atMs: 0, reason: '' },
  })])
  const refused = run(...words.split(' '))
  await expect(refused).rejects.toThrow(UsageError)
  await expect(refused).rejects.toThrow(message)
})
