import { expect, it } from 'vitest'
import { areErased } from '../../../../services/admin/audit/keys.ts'

it('results are erased with their job and with its organization', async () => {
  const job = { tenant: 'org_1.live', id: 'job_1' }
  const ask = (exists: number, hexists: number) => areErased(
    { exists: async () => exists, hexists: async () => hexists } as never, job)
  expect(await Promise.all([ask(1, 0), ask(0, 1), ask(0, 0)])).toEqual([true, true, false])
})
