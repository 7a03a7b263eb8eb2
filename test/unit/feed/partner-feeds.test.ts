import { describe, expect, it } from 'vitest'
import type { Partner } from '../../../services/accounts/partners.ts'
import { startPartnerFeeds } from '../../../services/feed/partner-feeds.ts'
import { InfrastructureError } from '../../../services/platform/errors.ts'
import { eventually } from '../../support/eventually.ts'

const partnerOf = (name: string, revokedAtMs = 0) => ({ name, revokedAtMs }) as Partner
const log = { info: () => {}, warn: () => {} }

function environment () {
  const state = { partners: [] as Partner[], fails: undefined as Error | undefined }
  const events: string[] = []
  const feeds = startPartnerFeeds({
    partners: {
      list: async () => {
        if (state.fails !== undefined) throw state.fails
        return state.partners
      },
    },
    start: ({ name }) => {
      events.push(`start ${name}`)
      return {
        state: () => name === 'poor' ? 'paused' : 'running',
        stop: async () => { events.push(`stop ${name}`) },
      }
    },
    pollMs: 1,
    log,
    fail: error => { events.push(`fail ${String(error)}`) },
  })
  return { state, events, feeds }
}

describe('the partner feeds', () => {
  it('start with the registration of a partner and stop with its revocation', async () => {
    const { state, events, feeds } = environment()
    state.partners = [partnerOf('acme'), partnerOf('gone', 5)]
    await eventually(() => expect(events).toEqual(['start acme']))
    state.partners = [partnerOf('acme', 9), partnerOf('poor')]
    await eventually(() => expect(events).toEqual(['start acme', 'stop acme', 'start poor']))
    expect([feeds.ready(), feeds.count('running'), feeds.count('paused')]).toEqual([true, 0, 1])
    await feeds.stop()
    expect(events.at(-1)).toBe('stop poor')
  })

  it('are not ready while Redis is unavailable, and recover', async () => {
    const { state, events, feeds } = environment()
    state.fails = new InfrastructureError('away')
    await eventually(() => expect(feeds.ready()).toBe(false))
    state.fails = undefined
    await eventually(() => expect(feeds.ready()).toBe(true))
    await feeds.stop()
    expect(events).toEqual([])
  })
})
