import { describe, expect, it, vi } from 'vitest'
import type { AccessEntry } from '../../../../schemas/types.ts'
import {
  AccessShipper, createAccessLog, createAccessOutbox, recordAttempt, type AccessEvent,
  ACCESS_COLUMNS,
} from '../../../../services/accounts/access-log/access-log.ts'
import type { OutgoingMessage } from '../../../../services/runtime/kafka/bus.ts'
import { codec } from '../../../support/clickhouse/results.ts'
import { eventually } from '../../../support/eventually.ts'
import { readFileSync } from 'node:fs'

const event: AccessEvent = {
  organization: 'org_1',
  actor: { kind: 'key', id: 'key_1' },
  action: 'results.downloaded',
  target: 'job_1',
  address: '192.0.2.7',
  details: { mode: 'live' },
}

/** A stream as Redis has it, whose time is 7. */
function createStream () {
  const entries: [string, string[]][] = []
  return {
    entries,
    xadd: async (key: string, id: string, ...fields: string[]) => {
      expect([key, id]).toEqual(['{global}:access-log:outbox', '*'])
      entries.push([`7-${entries.length}`, fields])
      return `7-${entries.length}`
    },
    xrange: async (...[, , end, , limit]: [string, string, string, string, number]) =>
      entries.filter(([id]) => end === '+' || parseInt(id) <= Number(end)).slice(0, limit),
    xdel: async (_key: string, ...ids: string[]) => {
      const kept = entries.filter(([id]) => !ids.includes(id))
      return entries.splice(0, entries.length, ...kept).length - kept.length
    },
  }
}

const open = () => {
  const stream = createStream()
  const redis = stream as never
  return { stream, log: createAccessLog(redis), outbox: createAccessOutbox(redis) }
}

describe('the access log', () => {
  it('adds an entry with the time of Redis to the outbox', async () => {
    const { log, outbox } = open()
    await log.append(event)
    const [pending] = await outbox.oldest(10)
    expect(pending?.entry).toEqual({
      entryId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      at: 7,
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

  it('loses an attempt that is withdrawn before it is shipped', async () => {
    const { log, outbox } = open()
    const [first, second] = [await recordAttempt(log, event), await recordAttempt(log, event)]
    expect(await first.withdraw()).toBe(true)
    expect(await outbox.oldest(10)).toHaveLength(1)
    await outbox.remove(await outbox.oldest(10))
    expect(await second.withdraw()).toBe(false)
  })

  it('cuts texts that are too long', async () => {
    const { log, outbox } = open()
    const details = { name: '\u{1f600}'.repeat(150) }
    await log.append({ ...event, target: 'x'.repeat(11_000), address: 'x'.repeat(201), details })
    const [pending] = await outbox.oldest(1)
    expect(pending?.entry.target).toHaveLength(10_000)
    expect(pending?.entry.address).toHaveLength(200)
    expect(JSON.parse(pending?.entry.details ?? '')).toEqual({ name: '\u{1f600}'.repeat(100) })
  })
})

/** A shipper of so many entries, and what it sends: a key and a target each. */
async function createShipping (count: number, nowMs: number) {
  const { log, outbox } = open()
  for (let job = 1; job <= count; job += 1) await log.append({ ...event, target: `job_${job}` })
  const batches: string[][] = []
  const send = vi.fn(async (messages: readonly OutgoingMessage[]) => {
    batches.push(await Promise.all(messages.map(async ({ key, value }) => {
      const { target } = await codec.decode('access.log', value!) as AccessEntry
      return `${key} ${target}`
    })))
  })
  const warn = vi.fn()
  const shipper = new AccessShipper({
    outbox, codec, producer: { send }, clock: { now: () => nowMs }, log: { warn },
  })
  return { shipper, outbox, batches, send, warn }
}

describe('the shipping of the access log', () => {
  it.each([[506, []], [507, [200, 200, 50]]])(
    'sends entries oldest first, not within half a second: at %d ms', async (nowMs, sizes) => {
      const { shipper, outbox, batches } = await createShipping(450, nowMs)
      await shipper.ship(new AbortController().signal)
      expect(batches.map(({ length }) => length)).toEqual(sizes)
      expect(batches.flat()).toEqual(batches.flat().map((_, index) => `org_1 job_${index + 1}`))
      expect(await outbox.oldest(450)).toHaveLength(450 - batches.flat().length)
    })

  it('keeps entries until they are acknowledged, and sends none beside a leader', async () => {
    const { shipper, outbox, batches, send, warn } = await createShipping(3, 1_000)
    const leads = [false, true, true]
    const isLeader = vi.fn(() => leads.shift() ?? false)
    send.mockImplementationOnce(async () => {
      expect(isLeader.mock.calls.length).toBe(2)
      throw new Error('down')
    })
    const { stop } = shipper.start(isLeader)
    await eventually(async () => expect(await outbox.oldest(1)).toEqual([]))
    await stop()
    expect(warn).toHaveBeenCalledOnce()
    expect(batches).toEqual([['org_1 job_1', 'org_1 job_2', 'org_1 job_3']])
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
