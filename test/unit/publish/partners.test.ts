import { expect, it } from 'vitest'
import type { Partner } from '../../../services/accounts/partners.ts'
import { createDeletionCheck } from '../../../services/publish/partners.ts'

it('a partner is deleted once it is revoked and its result topic is missing', async () => {
  const revokedAtMs: Record<string, number> = { active: 0, revoked: 5, deleted: 5 }
  const checked: string[] = []
  const find = async (name: string) =>
    name in revokedAtMs ? { name, revokedAtMs: revokedAtMs[name] } as Partner : undefined
  const isDeleted = createDeletionCheck({ find }, async topic => {
    checked.push(topic)
    return topic !== 'feeds.deleted.finished'
  })
  const names = ['active', 'revoked', 'deleted', 'unknown']
  expect(await Promise.all(names.map(isDeleted))).toEqual([false, false, true, false])
  expect(checked.toSorted()).toEqual(['feeds.deleted.finished', 'feeds.revoked.finished'])
})
