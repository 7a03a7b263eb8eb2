import { expect, it } from 'vitest'
import { createPartnerProducers } from '../../../../services/jobs/results/partner-results.ts'

function setUp (limit: number) {
  const events: string[] = []
  const finish = new Map<string, () => void>()
  const producerOf = createPartnerProducers(partner => ({
    send: () => {
      events.push(`send ${partner}`)
      return new Promise(resolve => finish.set(partner, resolve))
    },
    close: async () => { events.push(`close ${partner}`) },
  }), limit)
  return { events, finish, send: (partner: string) => producerOf(partner).send([]) }
}

it('a partner with an unavailable topic does not block others', async () => {
  const { send, finish, events } = setUp(1)
  const stuck = send('stuck')
  const other = send('other')
  finish.get('other')!()
  await other
  expect(events).toEqual(['send stuck', 'send other'])
  finish.get('stuck')!()
  await stuck
})

it('producers above the limit are closed, least recently used first', async () => {
  const { send, finish, events } = setUp(2)
  for (const partner of ['a', 'b', 'a', 'c', 'b']) {
    const sent = send(partner)
    finish.get(partner)!()
    await sent
  }
  expect(events).toEqual([
    'send a', 'send b', 'send a', 'close b', 'send c', 'close a', 'send b',
  ])
})
