import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RowsInFlight } from '../../../../services/runtime/engine/tenant-queue.ts'

const NO_CREDIT = { hasCredit: () => false }

describe('the rows in flight of a tenant', () => {
  it('are limited to 4,000 per weight while another tenant is active', () => {
    const flight = new RowsInFlight(NO_CREDIT, tenant => tenant === 'heavy' ? 2 : 1)
    for (const tenant of ['usual', 'heavy']) flight.addWaiting(tenant, 5)
    flight.start('usual', 3_999)
    flight.start('heavy', 7_999)
    expect(['usual', 'heavy'].map(tenant => flight.mayStart(tenant))).toEqual([true, true])
    flight.start('usual', 1)
    flight.start('heavy', 1)
    expect(['usual', 'heavy'].map(tenant => flight.mayStart(tenant))).toEqual([false, false])
    flight.end('usual', 1)
    expect(['usual', 'heavy'].map(tenant => flight.mayStart(tenant))).toEqual([true, false])
  })

  it('are not limited while the tenant is alone', () => {
    const flight = new RowsInFlight(NO_CREDIT, () => 1)
    flight.addWaiting('a', 3)
    flight.start('a', 100_000)
    expect(flight.mayStart('a')).toBe(true)
    flight.addWaiting('b', 2)
    expect(flight.mayStart('a')).toBe(false)
    flight.addWaiting('b', -1)
    flight.start('b', 1)
    expect(flight.mayStart('a')).toBe(false)
    flight.end('b', 1)
    expect(flight.mayStart('a')).toBe(true)
  })

  it('are not limited while the tenant has credit', () => {
    const flight = new RowsInFlight({ hasCredit: tenant => tenant === 'b' }, () => 1)
    for (const tenant of ['a', 'b']) {
      flight.addWaiting(tenant, 2)
      flight.start(tenant, 20_000)
    }
    expect(['a', 'b'].map(tenant => flight.mayStart(tenant))).toEqual([false, true])
  })

  it('wake the partitions that wait when some of them end', async () => {
    const flight = new RowsInFlight(NO_CREDIT, () => 1)
    const woken: string[] = []
    flight.addWaiting('a', 1)
    flight.start('a', 1)
    const waits = ['first', 'second'].map(async name => {
      await flight.nextEnd()
      woken.push(name)
    })
    expect(woken).toEqual([])
    flight.end('a', 1)
    await Promise.all(waits)
    expect(woken).toEqual(['first', 'second'])
  })

  it('never exceed the limit by more than one message, and never stop all tenants', () => {
    const steps = fc.array(fc.record({
      tenant: fc.constantFrom('a', 'b', 'c'),
      rows: fc.integer({ min: 1, max: 2_000 }),
      isEnd: fc.boolean(),
    }), { maxLength: 100 })
    fc.assert(fc.property(steps, all => {
      const flight = new RowsInFlight(NO_CREDIT, () => 1)
      const running: { readonly tenant: string, readonly rows: number }[] = []
      for (const tenant of ['a', 'b', 'c']) flight.addWaiting(tenant, all.length + 1)
      for (const { tenant, rows, isEnd } of all) {
        const ending = isEnd ? running.shift() : undefined
        if (ending !== undefined) flight.end(ending.tenant, ending.rows)
        if (!flight.mayStart(tenant)) {
          expect(running.some(one => one.tenant === tenant)).toBe(true)
          continue
        }
        flight.start(tenant, rows)
        running.push({ tenant, rows })
        const total = running.filter(one => one.tenant === tenant)
          .reduce((sum, one) => sum + one.rows, 0)
        expect(total).toBeLessThan(4_000 + 2_000)
      }
    }))
  })
})
