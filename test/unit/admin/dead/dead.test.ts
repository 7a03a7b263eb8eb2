import { afterEach, beforeEach, describe, expect, it } from 'vitest'
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

describe('dead letters', () => {
  it('are a table for people, with those that were decided on request', async () => {
    dead.die('verify', 'seal_broken')
    dead.die('verify', '', { headers: {} })
    await run('discard', 'verify', '0:0', '--reason', 'a test')
    expect(await lettersIn()).toMatchObject([{ letter: '0:1' }])
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
  ])('wait although they are messages %s', async (_, headers, expected) => {
    dead.topics.set('verify.dead', [
      { ...live, topic: 'verify.dead', partition: 0, offset: 0n, value: null, headers },
    ])
    expect(await lettersIn()).toMatchObject([{ rows: 0, bytes: 0, ageSeconds: null, ...expected }])
  })

  it('are shown with their rows and their history, and content only with a warning', async () => {
    dead.die('verify', 'seal_broken')
    dead.reports.push({ action: 'ignored', reason: 'why' })
    await replay('0:0')
    expect(await json<object>('show', 'verify', '0:0')).toMatchObject({
      rowsOfJob: '11-12, 14',
      history: [{ action: 'ignored', at: '2026-01-02T03:05:35.000Z', reason: 'why' }],
    })
    expect(await run('show', 'verify', '0:0', '--open')).toMatch(
      /^warning: This output contains [^]+\ncontent: sealed \+12127365000$/)
    dead.die('feed', 'undecodable', { topic: 'feeds.acme.submitted', headers: {} })
    expect(await json('show', 'feed', '0:0'))
      .toMatchObject({ jobStatus: 'no job', rowsOfJob: 'unknown' })
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
  it('sends the original message to its partition, and again only if asked to', async () => {
    dead.die('verify', 'a')
    dead.die('verify', 'b', { value: Buffer.from('second') })
    dead.reports.push({ action: 'replayed', reason: 'taken' })
    dead.jobs.set('job_a', { status: 'completed', ended: true, chargedMicros: 3_000 })
    expect(await run('replay', 'verify', '0:1'))
      .toBe('verify 0:1: taken, job job_a, completed, charged 3000 micros')
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
    await run('replay', 'verify', '0:1', '--again')
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

it('dead letters are discarded by their reason, and sent nowhere', async () => {
  for (const reason of ['a', 'b', 'a', 'a']) dead.die('verify', reason)
  const words = ['discard', 'verify', '--reason', ' a test ', '--died-of', 'a', '--yes']
  await run(...words, '--limit', '1')
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
  ['replay verify 0:0 --wait x', '--wait must be a number of at least 0, not "x".'],
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
