import { describe, expect, it } from 'vitest'
import {
  ACCESS_OUTBOX_KEY, createAccessLog, createAccessOutbox, recordAttempt,
} from '../../../../services/accounts/access-log/access-log.ts'
import type { AccessEvent } from '../../../../services/accounts/access-log/entry.ts'

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
      expect([key, id]).toEqual([ACCESS_OUTBOX_KEY, '*'])
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

  it('has an attempt and its result, whose id repeats that of the attempt', async () => {
    const { log, outbox } = open()
    const { record } = await recordAttempt(log, event)
    await record('failed')
    await record('done', { target: 'job_2', details: { rows: '3' } })
    const entries = (await outbox.oldest(10)).map(one => one.entry)
    expect(entries.map(({ outcome, target, details }) => [outcome, target, details])).toEqual([
      ['attempted', 'job_1', '{"mode":"live"}'],
      ['failed', 'job_1', '{"mode":"live"}'],
      ['done', 'job_2', '{"mode":"live","rows":"3"}'],
    ])
    const [attemptId = '', ...ids] = entries.map(({ entryId }) => entryId)
    expect(ids).toEqual([`${attemptId}:result`, `${attemptId}:result`])
  })

  it('loses an attempt that is withdrawn before it is shipped', async () => {
    const { log, outbox } = open()
    const [first, second] = [await recordAttempt(log, event), await recordAttempt(log, event)]
    expect(await first.withdraw()).toBe(true)
    expect(await outbox.oldest(10)).toHaveLength(1)
    await outbox.remove(await outbox.oldest(10))
    expect(await second.withdraw()).toBe(false)
  })

  it('lists only entries up to a time of Redis', async () => {
    const { log, outbox } = open()
    await log.append(event)
    expect(await outbox.oldest(10, 6)).toEqual([])
    expect(await outbox.oldest(10, 7)).toHaveLength(1)
  })

  it('fails when Redis does not take the entry', async () => {
    const redis = { xadd: async () => { throw new Error('READONLY') } }
    await expect(createAccessLog(redis as never).append(event)).rejects.toThrow('READONLY')
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

  it('removes from the outbox only what was acknowledged', async () => {
    const { log, outbox } = open()
    for (const target of ['job_1', 'job_2', 'job_3']) await log.append({ ...event, target })
    await outbox.remove(await outbox.oldest(2))
    await outbox.remove([])
    expect((await outbox.oldest(10)).map(({ entry }) => entry.target)).toEqual(['job_3'])
  })
})
