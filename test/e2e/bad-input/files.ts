import { once } from 'node:events'
import { request } from 'node:http'
import { describe, expect, it } from 'vitest'
import { parseCsv } from '../../support/stacks/environment.ts'
import {
  ask, free, head, newCustomer, newNumbers, postHead, raw, service, shared,
} from './support.ts'

/** Rows of the job that is downloaded; `npm run test:full` asks for the largest there is. */
const DOWNLOADED_ROWS = Number(process.env.DOWNLOADED_ROWS ?? '5000')

describe.concurrent('a file', () => {
  it('ten downloads at once are all whole, and ranges are not cut', async () => {
    const { client, key } = await newCustomer(DOWNLOADED_ROWS * 2_000)
    const inputs = newNumbers(DOWNLOADED_ROWS)
    const created = await client.createJob({ service, inputs })
    await client.waitForEnd(created.id)
    const path = `/jobs/${created.id}/results`
    const wishes: readonly Readonly<Record<string, string>>[] = [
      {}, { range: 'bytes=0-99' }, { range: 'bytes=5-1' }, { range: 'rows=1-2' },
      { accept: 'text/csv' }, { accept: '*/*' }, { 'accept-encoding': 'identity' },
      { 'accept-encoding': 'br;q=1, gzip;q=0' }, { 'if-range': '"x"' }, { 'if-none-match': '"x"' },
    ]
    const files = await Promise.all(wishes.map(headers => ask(path, { key, headers })))
    expect(files.map(({ status }) => status)).toEqual(Array(10).fill(200))
    expect(new Set(files.map(({ text }) => text)).size).toBe(1)
    expect(parseCsv(files[0]?.text ?? '').map(it => it.input)).toEqual(inputs)

    await leaveDownloads(path, key)
    expect((await ask(path, { key })).text).toBe(files[0]?.text)
  })
})

/** Begins ten downloads, takes a piece of each and is gone. */
async function leaveDownloads (path: string, key: string): Promise<void> {
  await Promise.all(Array.from({ length: 10 }, async () => {
    const sent = request(`${shared().environment.baseUrl}${path}`, {
      headers: { authorization: `Bearer ${key}` }, agent: false,
    })
    sent.end()
    const [answer] = await once(sent, 'response')
    answer.on('error', () => {})
    await once(answer, 'data')
    sent.destroy()
  }))
}

it('a client that leaves in the middle makes no job and leaves nothing open', async () => {
  const { key, client } = await newCustomer()
  const lines = (length: number) =>
    postHead(`content-length: ${length}`).replace(/Bearer \S+/, `Bearer ${key}`)
  const body = JSON.stringify({ service, inputs: newNumbers(2) })
  const left = await Promise.all([1, 10, body.length - 1].map(sentBytes =>
    raw([lines(body.length), body.slice(0, sentBytes)], { end: true })))
  expect(left.every(({ status }) => status === 0 || status === 400)).toBe(true)
  expect((await client.jobsPage({ limit: 1 })).data).toEqual([])
  expect((await ask('/jobs', { key, body: free })).status).toBe(202)
  expect((await raw([head('GET /api/v1/balance HTTP/1.1')])).status).toBe(200)
})
