import { expect, it, vi } from 'vitest'
import { shipAccess, startAccessShipping } from '../../../services/ledger/outbox-shipper.ts'
import { accessEntry } from '../../support/access.ts'
import { eventually } from '../../support/eventually.ts'
import { codec } from '../../support/clickhouse/results.ts'

const { signal } = new AbortController()

/** An outbox with this many entries, and what was done. */
function createShipping (count: number, nowMs = Number.MAX_SAFE_INTEGER) {
  const pending = Array.from({ length: count }, (_, index) =>
    ({ id: String(index), entry: accessEntry({ seq: index + 1 }) }))
  const sent: string[] = []
  const send = vi.fn(async (messages: readonly { key: string, value: Buffer | null }[]) => {
    for (const { key, value } of messages) {
      const { entryId } = await codec.decode('access.log', value!) as { readonly entryId: string }
      sent.push(`${key} ${Number(entryId.slice(-12))}`)
    }
  })
  const warn = vi.fn()
  const deps = {
    outbox: {
      oldest: async (limit: number, untilMs = Infinity) =>
        pending.filter(({ entry }) => entry.at <= untilMs).slice(0, limit),
      remove: async (entries: readonly unknown[]) => { pending.splice(0, entries.length) },
    },
    codec,
    clock: { now: () => nowMs },
    producer: { send },
    isLeader: vi.fn(() => true),
    log: { warn },
  }
  return { deps, pending, sent, send, warn }
}

it('entries of the access log are shipped oldest first, and leave their outbox', async () => {
  const { deps, pending, sent } = createShipping(450)
  await shipAccess(deps, signal)
  expect(sent).toEqual(Array.from({ length: 450 }, (_, index) => `org_1 ${index + 1}`))
  expect(pending).toEqual([])
})

it('entries of the access log stay in their outbox until they are acknowledged', async () => {
  const { deps, pending, send, sent, warn } = createShipping(3)
  send.mockRejectedValueOnce(new Error('down'))
  const { stop } = startAccessShipping(deps)
  await eventually(() => expect(pending).toEqual([]))
  await stop()
  expect(warn).toHaveBeenCalledOnce()
  expect(sent).toEqual(['org_1 1', 'org_1 2', 'org_1 3'])
})

it('entries of the access log are held for half a second, to be withdrawn', async () => {
  const { at } = accessEntry({ seq: 1 })
  const early = createShipping(3, at + 499)
  await shipAccess(early.deps, signal)
  expect([early.sent, early.pending.length]).toEqual([[], 3])
  const late = createShipping(3, at + 501)
  await shipAccess(late.deps, signal)
  expect(late.sent.length).toBeGreaterThan(0)
})

it('a ledger that does not lead ships nothing', async () => {
  const { deps, pending } = createShipping(3)
  deps.isLeader.mockReturnValue(false)
  const { stop } = startAccessShipping(deps)
  await eventually(() => expect(deps.isLeader.mock.calls.length).toBeGreaterThan(1))
  await stop()
  expect(pending).toHaveLength(3)
})
