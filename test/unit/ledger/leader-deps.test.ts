import { expect, it } from 'vitest'
import { leaderDeps } from '../../../services/ledger/leader-deps.ts'
import { messageKeysOf } from '../../support/signed.ts'

const config = {
  KAFKA_BROKERS: ['broker:9092'],
  ...messageKeysOf(),
  INSTANCE: 'i1',
  LEADER_POLL_MS: 1,
  LEADER_LEASE_MS: 2,
  LEADER_GRACE_MS: 3,
  CHECK_EVERY_MS: 4,
  SNAPSHOT_EVERY_MS: 5,
  SNAPSHOT_BEHIND_MS: 6,
}

it('leaderDeps gives ledgers of the same name unique names, and passes their settings on', () => {
  const make = () => leaderDeps(config, { bus: { producer: () => ({}) } } as never, {} as never)
  const [one, other] = [make(), make()]
  expect(one).toMatchObject({
    pollMs: 1,
    leaseMs: 2,
    graceMs: 3,
    checkEveryMs: 4,
    snapshotEveryMs: 5,
    snapshotBehindMs: 6,
  })
  expect(one.name).toMatch(/^ledger\.i1\.[0-9a-f-]{36}$/)
  expect(other.name).not.toBe(one.name)
})
