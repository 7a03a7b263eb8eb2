import { expect, it } from 'vitest'
import { connectPartnerResults } from '../../../../services/jobs/results/partner-results.ts'
import { createCodec } from '../../../../services/runtime/kafka/registry.ts'
import { localSource } from '../../../support/kafka/local-schemas.ts'

function setUp () {
  const events: string[] = []
  const finish = new Map<string, () => void>()
  const producer = (id: string) => ({
    send: () => {
      events.push(`send ${id}`)
      return new Promise<void>(resolve => finish.set(id, resolve))
    },
    close: async () => { events.push(`close ${id}`) },
  })
  const results = connectPartnerResults(
    { bus: { producer }, codec: createCodec(localSource()) }, 'publish')
  const send = async (partner: string, isFinished = true) => {
    const target = { partner, key: Buffer.alloc(32), partition: 0, service: 'whatsapp' }
    const sent = results.send(target, [{ offset: 1, reference: 'a', cells: { job: 'job_1' } }])
    const id = `publish.results.${partner}`
    if (isFinished) {
      await expect.poll(() => finish.has(id), { interval: 1 }).toBe(true)
      finish.get(id)?.()
      finish.delete(id)
      await sent
    }
    return sent
  }
  return { events, send }
}

it('results of a partner wait for no other partner', async () => {
  const { send, events } = setUp()
  send('stuck', false).catch(() => {})
  await send('other')
  expect(events).toEqual(['send publish.results.stuck', 'send publish.results.other'])
})

it('producers above a hundred are closed, least recently used first', async () => {
  const { send, events } = setUp()
  for (let partner = 0; partner < 100; partner++) await send(`p${partner}`)
  await send('p0')
  await send('new')
  await send('p0')
  expect(events.slice(100)).toEqual([
    'send publish.results.p0', 'close publish.results.p1', 'send publish.results.new',
    'send publish.results.p0',
  ])
})
