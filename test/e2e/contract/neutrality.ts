import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CANARIES, type VendorMode } from '../../support/vendors/vendor-words.ts'
import { ask, heard, newCustomer, newNumbers, receiver, shared, type Account, type Customer }
  from './support.ts'

const MODES: readonly VendorMode[] = [
  'well', 'contradicting', 'erring', 'puzzling', 'refusing', 'broken', 'down', 'garbage', 'moved',
]
const leaked = (texts: readonly string[]) => texts.flatMap(text => CANARIES
  .filter(word => text.toLowerCase().includes(word.toLowerCase()))
  .map(word => `${word}: ${text.slice(0, 300)}`))

/** Asks all there is to ask about a job, wrong questions included. */
async function askEverything ({ ask: put }: Account, id: string, deliveryId: string) {
  const job = `/jobs/${id}`
  const paths = [
    job, `${job}/results`, `${job}/results?format=json`, `${job}/results?format=jsonl`,
    `${job}/results?safe=spreadsheet`, `${job}/results?format=json&status=unknown`,
    `${job}/results?format=json&cursor=x`, `${job}/results?format=xml`, `${job}/deliveries`,
    `${job}/nothing`, '/jobs', '/jobs?service=whatsapp', '/services', '/balance', '/nothing',
  ]
  await Promise.all(paths.map(path => put(path)))
  for (const path of [`${job}/cancel`, `${job}/deliveries/${deliveryId}/resend`, job, '/nothing']) {
    await put(path, { method: 'POST' })
  }
}

describe('the vendor behind a service', () => {
  let customer: Customer
  beforeAll(async () => { customer = await newCustomer() })

  it.each(MODES)('is in no response, file, event or history, when it is %s',
    async mode => {
      const { vendor } = shared()
      const { live } = customer
      await vendor.behave(mode)
      const path = `/200/${randomUUID()}`
      const inputs = [0, 1, 2, 4, 9].flatMap(digit => newNumbers(1, digit))
      const { id } = await live.client.createJob({
        service: 'whatsapp', inputs, webhook_url: `http://127.0.0.1:${receiver.port}${path}`,
      })
      await live.client.waitForEnd(id, { pollEveryMs: 50 })
      expect((await vendor.state()).calls).toBeGreaterThan(0)
      const [got] = await receiver.until(1, path)
      const from = heard.length
      await askEverything(live, id, JSON.parse(got?.body ?? '').id)
      expect(heard.length - from).toBe(19)
      expect(leaked([...heard.slice(from), JSON.stringify(got)])).toEqual([])
    })

  it('is in none of the documents', async () => {
    for (const path of ['//openapi.json', '//docs', '//changelog']) {
      expect(leaked([(await ask(path)).text])).toEqual([])
    }
  })

  it('a leaked name would be found', async () => {
    const { vendor } = shared()
    const own = await fetch(`${vendor.url}/single?number=1`)
    expect(leaked([JSON.stringify([...own.headers])])).not.toEqual([])
  })

  afterAll(() => {
    expect(leaked([...heard, ...receiver.received.map(one => JSON.stringify(one))])).toEqual([])
  })
})
