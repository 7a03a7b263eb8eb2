import { expect, it } from 'vitest'
import { createClient } from '../../../services/client/client.ts'

it('the account of the client reads usage in both formats, and movements by pages', async () => {
  const paths: string[] = []
  const answer = async (url: string) => {
    const path = url.slice('http://there'.length)
    paths.push(path)
    if (path.includes('format=csv')) return new Response('day,rows')
    const next = path.startsWith('/transactions') && !path.includes('after=') ? 'c' : null
    return Response.json({ data: [paths.length], has_more: next !== null, next_cursor: next })
  }
  const api = createClient({ baseUrl: 'http://there', apiKey: 'k', fetch: answer as never })
  await api.usage({ group_by: 'service' })
  expect(await api.usageFile()).toBe('day,rows')
  const movements: unknown[] = []
  for await (const movement of api.transactions()) movements.push(movement)
  expect(movements).toEqual([3, 4])
  await api.balance()
  expect(await api.services()).toEqual([6])
  expect(paths).toEqual([
    '/usage?group_by=service&format=json', '/usage?format=csv',
    '/transactions?limit=100', '/transactions?limit=100&after=c', '/balance', '/services',
  ])
})
