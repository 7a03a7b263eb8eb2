import { expect, it } from 'vitest'
import type { Partner } from '../../../services/accounts/partners.ts'
import { createGone } from '../../../services/handback/partners.ts'

it('a partner is gone once it is revoked and has no topic of results', async () => {
  const revokedAtMs: Record<string, number> = { active: 0, revoked: 5, deleted: 5 }
  const asked: string[] = []
  const find = async (name: string) =>
    name in revokedAtMs ? { name, revokedAtMs: revokedAtMs[name] } as Partner : undefined
  const isGone = createGone({ find }, async topic => {
    asked.push(topic)
    return topic !== 'feeds.deleted.finished'
  })
  const names = ['active', 'revoked', 'deleted', 'unknown']
  expect(await Promise.all(names.map(isGone))).toEqual([false, false, true, false])
  expect(asked.toSorted()).toEqual(['feeds.deleted.finished', 'feeds.revoked.finished'])
})
