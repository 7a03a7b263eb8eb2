import { describe, expect, it, vi } from 'vitest'
import { readFileSync, writeFileSync } from 'node:fs'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { startHeadExport, createHeadTarget } from '../../../services/ledger/head-export.ts'
import { EXPORTED_KEY } from '../../../services/money/redis-keys.ts'
import {
  CHAIN_START, type ChainHead, createHeadsCodec, type JournalHeads,
} from '../../../services/money/journal.ts'
import { accessEntry } from '../../support/access.ts'
import { eventually } from '../../support/eventually.ts'
import { messageKeysOf } from '../../support/keys/signed.ts'
import { ledgerConfig } from '../../../services/ledger/config.ts'
import { startReceiver } from '../../support/webhooks/receiver.ts'
import { newFolder } from '../../support/folder.ts'

const DAY_MS = 86_400_000
const NOW_MS = 100 * DAY_MS
const codec = createHeadsCodec(messageKeysOf())

const head = { seq: 7, hash: 'h', missing: [] }
const exportAt = (at: number) =>
  codec.encode({
    at,
    tenants: [
      { tenant: 'org_0.live', ...head }, { tenant: 'org_2.live', ...head, missing: [[2, 3]] },
    ],
  })

/** An export that does not run in the background: tests await each round. */
function exporting ({
  isLeader = true, everyMs = DAY_MS, last = '', tenants = 2, accessEntries = 0,
} = {}) {
  const kept = new Map(last === '' ? [] : [[EXPORTED_KEY, last]])
  const names = Array.from({ length: tenants }, (_, index) => `org_${index}.live`)
  const exported: (JournalHeads | undefined)[] = []
  const reads: ReadonlyMap<string, ChainHead>[] = []
  const target = vi.fn(async (line: string) => { exported.push(codec.decode(line)) })
  const metrics = createMetrics()
  const parts = {
    isLeader: vi.fn(() => isLeader),
    everyMs,
    codec,
    target,
    metrics,
    clock: { now: () => NOW_MS },
    log: { info: () => {}, error: () => {} },
    tenants: { all: async () => names.toReversed() },
    redis: {
      get: async (key: string) => kept.get(key) ?? null,
      set: async (key: string, value: string) => { kept.set(key, value) },
    },
    accessCopy: {
      pages: async function * (after: number) {
        if (after < accessEntries) yield { entries: [accessEntry({ seq: after + 1 })], forged: [] }
      },
    },
    journal: {
      heads: async (from: ReadonlyMap<string, ChainHead>) => {
        reads.push(from)
        return new Map([...from].filter(([name]) => name !== 'org_1.live').map(([name, { seq }]) =>
          [name, { seq: seq + 3, hash: `hash of ${name}`, missing: [[2, 2]] }]))
      },
    },
  }
  const { stop } = startHeadExport(parts as never)
  const age = async () =>
    /^journal_head_age_intervals (.+)$/m.exec(await metrics.text())?.[1]
  return { parts, exported, reads, target, age, stop }
}

/** What one export contains, and what was read for it. */
async function exportOnce (options: Parameters<typeof exporting>[0] = {}) {
  const running = exporting(options)
  await eventually(() => expect(running.exported).toHaveLength(1))
  await running.stop()
  return { ...running, tenants: running.exported[0]?.tenants ?? [] }
}

describe('the export of journal heads', () => {
  it('contains the head of the access log, which is continued', async () => {
    const accessHead = (await exportOnce({ accessEntries: 1 })).tenants.at(-1)
    expect(accessHead).toMatchObject({ tenant: 'access.log', seq: 1, missing: [] })
    const last = codec.encode({ at: 1, tenants: [accessHead!] })
    expect((await exportOnce({ accessEntries: 2, last })).tenants.at(-1))
      .toMatchObject({ seq: 2, missing: [] })
  })

  it('continues the complete chains of the last export if it is authentic', async () => {
    const { reads, tenants } = await exportOnce({ last: exportAt(1), tenants: 3 })
    const starts = [['org_1.live', CHAIN_START], ['org_2.live', CHAIN_START]] as const
    expect(reads)
      .toEqual([new Map([['org_0.live', expect.objectContaining(head)], ...starts])])
    expect(tenants)
      .toMatchObject([{ tenant: 'org_0.live', seq: 10 }, { tenant: 'org_2.live', seq: 3 }])
    const changed = await exportOnce({ last: exportAt(1).replace('"seq":7', '"seq":8') })
    expect(changed.reads[0]?.get('org_0.live')).toEqual(CHAIN_START)
  })

  it('reads a bounded number of tenants at once', async () => {
    const { reads, tenants } = await exportOnce({ tenants: 401 })
    expect(reads.map(({ size }) => size)).toEqual([200, 200, 1])
    expect(tenants).toHaveLength(400)
  })

  it('waits until it is due, also in a process that has just started', async () => {
    const { target, age, stop } = exporting({ last: exportAt(NOW_MS - DAY_MS + 1) })
    await eventually(async () => expect(Number(await age())).toBeCloseTo(1))
    await stop()
    expect(target).not.toHaveBeenCalled()
    expect((await exportOnce({ last: exportAt(NOW_MS - DAY_MS) })).exported).toHaveLength(1)
  })

  it('and its metric come from the leading ledger only', async () => {
    const { parts, target, age, stop } = exporting({ isLeader: false, everyMs: 1 })
    await eventually(() => expect(parts.isLeader.mock.calls.length).toBeGreaterThan(10))
    await stop()
    expect(target).not.toHaveBeenCalled()
    expect(await age()).toBeUndefined()
  })

  it('that has never succeeded shows since when', async () => {
    const { target, age, stop } = exporting()
    target.mockRejectedValue(new Error('no space left'))
    await eventually(async () => expect(await age()).toBe('100'))
    await stop()
  })
})

const folder = newFolder('verification-jobs-heads-')
const { signal } = new AbortController()

it('a file of which a crash has cut the last line gets the next one in its own', async () => {
  const path = `${folder}/cut.ndjson`
  writeFileSync(path, 'one\ntw')
  await createHeadTarget(path)('three', signal)
  expect(readFileSync(path, 'utf8')).toBe('one\ntw\nthree\n')
})

it('an address gets each line as JSON in a POST, and has to accept it itself', async () => {
  const answers = [200, 500, 302]
  const { port, received } = await startReceiver(response =>
    response.writeHead(answers.shift() ?? 200, { location: '/elsewhere' }).end('some words'))
  const target = createHeadTarget(`http://127.0.0.1:${port}/heads`)
  await target('{"a":1}', signal)
  expect(received[0]).toMatchObject({
    path: '/heads', body: '{"a":1}', headers: { 'content-type': 'application/json' },
  })
  await expect(target('{}', signal)).rejects
    .toThrow('JOURNAL_HEAD_TARGET responded with status 500')
  await expect(target('{}', signal)).rejects.toThrow('fetch failed')
  expect(received).toHaveLength(3)
  await expect(target('{}', AbortSignal.abort())).rejects.toThrow('aborted')
})

it('the setting takes a path or https, and plain http on this machine alone', () => {
  const { pattern = '' } =
    ledgerConfig.properties.JOURNAL_HEAD_TARGET as { readonly pattern?: string }
  const isTaken = (target: string) => new RegExp(pattern).test(target)
  const targets = [
    '/mnt/heads.ndjson', 'https://heads.example.com/in', 'http://127.0.0.1:80/in',
    'http://localhost/in', 'http://heads.example.com/in', 'http://localhost.example.com/', 'heads',
    'ftp://heads', 'http://127.0.0.100/',
  ]
  expect(targets.map(isTaken)).toEqual(
    [true, true, true, true, false, false, false, false, false])
})
