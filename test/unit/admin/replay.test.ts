import { expect, it } from 'vitest'
import type { Context } from '../../../services/admin/command-line.ts'
import { UsageError } from '../../../services/runtime/platform/run-command.ts'
import { runCommand } from '../../support/admin.ts'

const BULK = 'rows.completed.bulk'

/** Brokers with two partitions of each topic, from offset 10 to 100; a group is at 90 and 80. */
function createBrokers ({ atTime = '50', committed = ['90', '80'] } = {}) {
  const set: object[] = []
  const admin = {
    fetchOffsets: async ({ topics }: { readonly topics: readonly string[] }) => {
      const partitions = [1, 0].map(partition => ({ partition, offset: committed[partition] }))
      return topics.map(topic => ({ topic, partitions }))
    },
    fetchTopicOffsets: async () => [0, 1].map(partition =>
      ({ partition, offset: '100', low: '10', high: '100' })),
    fetchTopicOffsetsByTimestamp: async (_topic: string, atMs: number) =>
      [{ partition: 0, offset: atMs === 1_000 ? atTime : '-1' }],
    describeGroups: async () => ({ groups: [{ members: [] }] }),
    setOffsets: async (offsets: object) => { set.push(offsets) },
  }
  const brokers: Context['brokers'] = async (_env, work) => await work(admin as never)
  const run = (words: string) => runCommand(`replay ${words}`, { brokers })
  const movesOf = async (words: string) =>
    JSON.parse(await run(`${words} --json`)).moves as readonly object[]
  return { run, movesOf, set }
}
const move = (partition: number, to: number) => {
  const next = 90 - 10 * partition
  return { topic: BULK, partition, next, to, messages: next - to }
}

it.each([
  ['--from beginning', [move(0, 10), move(1, 10)]],
  ['--from beginning --partition 1', [move(1, 10)]],
  ['--from 85 --partition 0', [move(0, 85)]],
  ['--from 90 --partition 0', []],
  ['--from 10 --partition 0', [move(0, 10)]],
  ['--from 1970-01-01T00:00:01Z', [move(0, 50)]],
  ['--from 1970-01-01T02:00:01+02:00', [move(0, 50)]],
])('a replay %s moves back to %j', async (words, moves) => {
  expect(await createBrokers().movesOf(`--stage settle --topic ${BULK} ${words}`)).toEqual(moves)
})

it('a replay never moves to a deleted offset or forward', async () => {
  const words = `--stage settle --topic ${BULK}`
  const time = '--from 1970-01-01T00:00:01Z'
  expect(await createBrokers({ atTime: '5' }).movesOf(`${words} ${time}`)).toEqual([move(0, 10)])
  expect(await createBrokers({ atTime: '95' }).movesOf(`${words} ${time}`)).toEqual([])
  const { movesOf } = createBrokers({ committed: ['-1', '-1'] })
  expect(await movesOf(`${words} --from beginning`)).toEqual([])
})

it.each([
  ['settle --group settle.bulk', [BULK], 'settle.bulk'],
  [`settle --topic ${BULK}`, [BULK], 'settle.bulk'],
  ['verify --topic rows.retry.small.whatsapp', ['rows.retry.small.whatsapp'],
    'verify.small.whatsapp'],
  ['deliver', ['jobs.settled'], 'deliver'],
])('a replay of %s reads the topics %j of %s again', async (words, topics, group) => {
  const plan = JSON.parse(await createBrokers().run(`--json --from beginning --stage ${words}`))
  expect(plan).toMatchObject({ group, members: 0, done: false })
  const found: readonly { readonly topic: string }[] = plan.moves
  expect([...new Set(found.map(({ topic }) => topic))]).toEqual(expect.arrayContaining(topics))
})

it.each([
  ...['', '-1', 'yesterday', '2026-08-11', '2026-08-11T09:30:00'].map(from =>
    [`--stage deliver --from=${from}`, `--from ${from} is not an offset (1200)`] as const),
  ['--stage settle --from beginning',
    /^2 groups match\. .*\n {2}settle\.small: rows\.completed\.small\n/],
  ['--stage settle --from beginning --group lookup.bulk', /^No group matches --group and --topic/],
  ['--stage ingest --from beginning', 'ingest cannot be replayed: it reads no topic'],
  ['--stage feed --from beginning', 'feed cannot be replayed: it stores cursors of its own'],
  ['--stage verfy --from beginning', 'Stage verfy does not exist. The stages are: ingest, feed'],
  ['--stage deliver --from 3', '--from 3 is an offset, which needs one partition'],
  ['--stage verify --group verify.small.whatsapp --from 3 --partition 0', 'needs one partition'],
  [`--stage settle --topic ${BULK} --from 3 --partition x`, '--partition x is not an integer'],
  [`--stage settle --topic ${BULK} --from beginning --partition 7`,
    'The topics of settle.bulk have no partition 7.'],
  [`--stage settle --topic ${BULK} --from 95 --partition 0`, 'would skip 5 messages'],
  [`--stage settle --topic ${BULK} --from 9 --partition 0`,
    `Offset 9 of partition 0 of ${BULK} is no longer retained. The oldest offset is 10.`],
] as const)('a replay %s is refused: %s', async (words, message) => {
  const { run, set } = createBrokers()
  const refused = run(`${words} --yes`)
  await expect(refused).rejects.toThrow(UsageError)
  await expect(refused).rejects.toThrow(message)
  expect(set).toEqual([])
})

it('a replay shows its plan, and with --yes commits it by topic', async () => {
  const words = '--stage verify --group verify.small.whatsapp --from beginning'
  const { run, set } = createBrokers()
  expect(await run(`${words} --partition 0`)).toMatch(
    /\n\S+ +0 +90 +10 +80\n.*\nNothing was changed: 160 messages .* Add --yes to replay them\.$/)
  expect(set).toEqual([])
  expect(await run(`${words} --yes`)).toContain('whatsapp will read 300 messages again when it')
  const partitions = [0, 1].map(partition => ({ partition, offset: '10' }))
  expect(set).toEqual(['rows.to-verify.small.whatsapp', 'rows.retry.small.whatsapp'].map(topic =>
    ({ groupId: 'verify.small.whatsapp', topic, partitions })))
  expect(await createBrokers({ committed: ['10', '10'] }).run(words)).toContain('nothing to replay')
})
