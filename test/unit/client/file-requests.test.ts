import { expect, it } from 'vitest'
import { createClient } from '../../../services/client/client.ts'

it('a file is sent as CSV with its options in the query, and a key for retries', async () => {
  const sent: { url: string, init: RequestInit | undefined }[] = []
  const client = createClient({
    baseUrl: 'https://api.example/api/v1',
    apiKey: 'k',
    retries: 1,
    pause: async () => {},
    fetch: async (input, init) => {
      sent.push({ url: String(input), init })
      return Response.json({ id: 'job_1' }, { status: sent.length === 1 ? 503 : 202 })
    },
  })
  const file = new TextEncoder().encode('a,b\n1,2\n')
  const options = { service: 's', column: 2, header: true, metadata: { 'a b': '&' } }
  expect(await client.createJobFromFile(file, options)).toEqual({ id: 'job_1' })
  await client.quoteFile(file, { service: 's' })
  expect(sent.map(({ url }) => url.replace('https://api.example/api/v1', ''))).toEqual([
    ...Array(2).fill('/jobs?service=s&column=2&header=true&metadata%5Ba+b%5D=%26'),
    '/quotes?service=s',
  ])
  const headers = sent.map(({ init }) => init?.headers as Record<string, string>)
  expect(headers.map(it => it['content-type'])).toEqual(Array(3).fill('text/csv'))
  expect(headers[0]?.['idempotency-key']).toMatch(/^[0-9a-f-]{36}$/)
  expect(headers[1]?.['idempotency-key']).toBe(headers[0]?.['idempotency-key'])
  expect(sent.every(({ init }) => init?.body === file)).toBe(true)
})
