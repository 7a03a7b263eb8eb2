import { describe, expect, it } from 'vitest'
import { AccountsRecoveringError } from '../../../../services/accounts/records.ts'
import { MissingKeyError, withKeyId } from '../../../../services/crypto/key-ring.ts'
import { joinJobKey } from '../../../../services/jobs/job-key-parts.ts'
import { areErased, createAuditKeys } from '../../../../services/workspace/audit/keys.ts'

const RESULTS_ROOT_KEYS = { 1: Buffer.alloc(32, 1).toString('base64') }
const part = (id: string) => withKeyId(id, Buffer.alloc(40))
const wrapped = joinJobKey({ results: part('results.1'), webhooks: part('webhooks.1') })

/** The keys of a Redis that has the key of a job, and none of its organization. */
function keysOf (more: { readonly isCurrent: number }) {
  const redis = {
    getBuffer: async () => wrapped,
    hgetall: async () => ({}),
    call: async (...[, , , ...names]: readonly unknown[]) => {
      // The read of an account; whatever adds a key has more keys.
      if (names.length !== 2) throw new Error(`unexpected script on ${names.join()}`)
      return [more.isCurrent, []]
    },
  }
  return createAuditKeys({ RESULTS_ROOT_KEYS, RESULTS_ROOT_KEY_ACTIVE: '1' }, {
    redis, bus: {}, codec: {}, clickhouse: {}, recordMac: {},
  } as unknown as Parameters<typeof createAuditKeys>[1])
}

describe('the keys of an audit', () => {
  it('name the organization that lacks its key, and create none', async () => {
    const error = await keysOf({ isCurrent: 1 }).get('org_1.live', 'job_1')
      .catch((error: unknown) => error)
    expect(error).toBeInstanceOf(MissingKeyError)
    expect(String(error)).toContain('organization org_1 has no key "results", which wraps')
  })

  it('are not missing while ledger may still restore them', async () => {
    await expect(keysOf({ isCurrent: 0 }).get('org_1.live', 'job_1'))
      .rejects.toThrow(AccountsRecoveringError)
  })
})

it('results are erased with their job and with its organization', async () => {
  const job = { tenant: 'org_1.live', id: 'job_1' }
  const ask = (exists: number, hexists: number) => areErased(
    { exists: async () => exists, hexists: async () => hexists } as never, job)
  expect(await Promise.all([ask(1, 0), ask(0, 1), ask(0, 0)])).toEqual([true, true, false])
})
