import { expect, it } from 'vitest'
import { createTenantGate } from '../../../services/ingest/queries.ts'

it('a tenant gate runs one read per tenant, in order, and refuses too many', async () => {
  const enter = createTenantGate()
  const started: string[] = []
  const first = Promise.withResolvers<void>()
  const read = (tenant: string, name: string) => enter(tenant, async () => {
    started.push(name)
    if (name === 'a0') await first.promise
    return name
  })
  const reads = Array.from({ length: 11 }, (_, at) => read('a', `a${at}`))
  await expect(read('a', 'a11')).rejects.toMatchObject({ fault: { code: 'rate_limited' } })
  expect(await read('b', 'b0')).toBe('b0')
  expect(started).toEqual(['a0', 'b0'])
  first.resolve()
  expect(await Promise.all(reads)).toHaveLength(11)
  expect(started.slice(2)).toEqual(Array.from({ length: 10 }, (_, at) => `a${at + 1}`))
})

it('a tenant gate continues after a failed read', async () => {
  const enter = createTenantGate()
  const failed = enter('a', async () => { throw new Error('down') })
  const next = enter('a', async () => 'done')
  await expect(failed).rejects.toThrow('down')
  expect(await next).toBe('done')
})
