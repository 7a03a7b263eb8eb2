import { beforeEach, describe, expect, it } from 'vitest'
import {
  ACCESS_COLUMNS, type AccessEvent, createAccessLog, createAccessOutbox,
} from '../../../../services/accounts/access-log/access-log.ts'
import { readFileSync } from 'node:fs'
import { workerRedis as redis, emptyRedis } from '../../../support/redis/worker.ts'

const event: AccessEvent = {
  organization: 'org_1',
  actor: { kind: 'key', id: 'key_1' },
  action: 'results.downloaded',
  target: 'job_1',
  address: '192.0.2.7',
  details: { mode: 'live' },
}

const log = createAccessLog(redis)
const outbox = createAccessOutbox(redis)
beforeEach(emptyRedis)

describe('the access log', () => {
  it('adds an entry with the time of Redis to the outbox', async () => {
    const id = await log.append(event)
    const [pending] = await outbox.oldest(10)
    expect(pending?.entry).toEqual({
      entryId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      at: parseInt(id),
      organization: 'org_1',
      actorKind: 'key',
      actor: 'key_1',
      action: 'results.downloaded',
      target: 'job_1',
      address: '192.0.2.7',
      outcome: 'done',
      details: '{"mode":"live"}',
    })
  })

  it('cuts texts that are too long', async () => {
    const details = { name: '\u{1f600}'.repeat(150) }
    await log.append({ ...event, target: 'x'.repeat(11_000), address: 'x'.repeat(201), details })
    const [pending] = await outbox.oldest(1)
    expect(pending?.entry.target).toHaveLength(10_000)
    expect(pending?.entry.address).toHaveLength(200)
    expect(JSON.parse(pending?.entry.details ?? '')).toEqual({ name: '\u{1f600}'.repeat(100) })
  })
})

const guide = readFileSync('deploy/docs/access-log.md', 'utf8')
const table = readFileSync('schemas/clickhouse/0009_access_log.sql', 'utf8')

it('the guide of the access log has the columns of exports, and their names in the table', () => {
  const [, fields = ''] = /\| field \| content \|\n\|---\|---\|\n((?:\|.*\n)+)/.exec(guide) ?? []
  const named = fields.split('\n').flatMap(line =>
    [...(line.split('|')[1] ?? '').matchAll(/`(\w+)`/g)].map(([, name]) => name))
  expect(new Set(named)).toEqual(new Set([...ACCESS_COLUMNS, 'hash']))

  const renamed = new Map([...guide.matchAll(/`(\w+)` is `(\w+)`/g)].map(([, from, to]) =>
    [from, to]))
  const stored = [...table.matchAll(/^ {4}(\w+) (?:LowC|String|UInt|DateTime)/gm)].map(([, name]) =>
    name)
  expect(new Set([...ACCESS_COLUMNS.map(name => renamed.get(name) ?? name), 'tenant', 'mac']))
    .toEqual(new Set(stored))
})
