import { describe, expect, it } from 'vitest'
import {
  shipAttempts, startShipping, type ShippingParts,
} from '../../../services/deliver/history.ts'
import type { Attempt } from '../../../services/jobs/delivery-history.ts'
import { eventually } from '../../support/eventually.ts'

const attemptOf = (attempt: number) => ({ attempt }) as Attempt

function scene () {
  const noted = new Map([['e:1', attemptOf(1)], ['e:2', attemptOf(2)]])
  const written: Attempt[] = []
  const state = { broken: false }
  const parts: ShippingParts = {
    deliveries: {
      unshipped: async most => new Map([...noted].slice(0, most)),
      forget: async names => { for (const name of names) noted.delete(name) },
    },
    history: {
      append: async attempts => {
        if (state.broken) throw new Error('broken')
        written.push(...attempts)
      },
    },
    log: { warn: () => {} } as unknown as ShippingParts['log'],
  }
  return { parts, noted, written, state }
}

describe('shipping', () => {
  it('forgets what it has written, and nothing before', async () => {
    const { parts, noted, written, state } = scene()
    state.broken = true
    await expect(shipAttempts(parts)).rejects.toThrow('broken')
    expect(noted.size).toBe(2)
    state.broken = false
    expect(await shipAttempts(parts)).toBe(2)
    expect(written).toEqual([attemptOf(1), attemptOf(2)])
    expect(noted.size).toBe(0)
  })

  it('is not ready while the history is not to be had, and heals', async () => {
    const { parts, written, state } = scene()
    state.broken = true
    const shipping = startShipping(parts)
    await eventually(() => expect(shipping.ready()).toBe(false))
    state.broken = false
    await eventually(() => expect(shipping.ready()).toBe(true))
    expect(written).toHaveLength(2)
    await shipping.stop()
  })

  it('writes what is left before it stops', async () => {
    const { parts, noted, written } = scene()
    const shipping = startShipping(parts)
    await eventually(() => expect(written).toHaveLength(2))
    noted.set('e:3', attemptOf(3))
    await shipping.stop()
    expect(written).toHaveLength(3)
  })
})
