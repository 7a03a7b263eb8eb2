import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { listen } from '../../support/listen.ts'
import { follow, startVerify } from './start-verify.ts'

const { acceptVendorJob } = await startVerify()
const PHONES = ['+12127365000', '+12127365001']

type Task = { readonly reference: string, readonly list: readonly string[], readonly at: number }

/**
 * A vendor that gives its results with the state of a task. It cuts off the reply to so many
 * submissions, before or after it has accepted them.
 */
async function startVendor (cut: { before?: number, after?: number } = {}) {
  const tasks: Task[] = []
  const seen = { submits: 0, finds: 0, idempotencyKeys: new Set<unknown>(), result: '' }
  const left = { before: 0, after: 0, ...cut }
  const server = createServer((request, response) => {
    const answer = async () => {
      const url = new URL(request.url ?? '', 'http://vendor')
      const [, , task] = url.pathname.split('/')
      if (request.method === 'POST') {
        const { reference, list } = await json(request) as Task
        seen.submits++
        seen.idempotencyKeys.add(request.headers['idempotency-key'])
        if (left.before-- > 0) return response.destroy()
        let at = tasks.findIndex((one) => one.reference === reference)
        if (at < 0 || request.headers['idempotency-key'] === undefined) {
          at = tasks.push({ reference, list, at: tasks.length }) - 1
        }
        if (left.after-- > 0) return response.destroy()
        return response.end(JSON.stringify({ id: at }))
      }
      if (task === undefined) {
        seen.finds++
        return response.end(JSON.stringify({
          data: tasks.map(({ reference, at }) =>
            ({ name: reference, id: at }))
        }))
      }
      const { list } = tasks[Number(task)]!
      const results = list.map((number) => ({ number, state: 'yes' }))
      response.end(JSON.stringify({ state: 'done', results, link: seen.result }))
    }
    answer().catch(() => response.destroy())
  })
  const url = `http://127.0.0.1:${await listen(server)}`
  onTestFinished(() => { server.close() })
  return { url, tasks, seen }
}

const described = (url: string, batch: object = {}, headers: Record<string, string> = {}) => ({
  id: 7,
  name: 'Zyxoria',
  services: ['whatsapp'],
  url: `${url}/tasks`,
  method: 'POST',
  auth: { kind: 'none' },
  maxRows: 2_000,
  request: { headers, body: { reference: '{reference}', list: '{contacts}' } },
  response: {
    rows: '/results',
    match: { contact: '/number' },
    verdict: { pointer: '/state', values: { yes: { status: 'valid', reason: 'registered' } } },
    fields: { whatsapp: { pointer: '/state', values: { yes: 'true' } } },
  },
  batch: {
    task: '/id',
    status: { url: `${url}/tasks/{task}`, pointer: '/state', values: { done: 'ended' } },
    ...batch,
  },
})

const find = (url: string) => ({
  find: { url: `${url}/tasks`, rows: '/data', reference: '/name', task: '/id' },
})

async function run (description: object) {
  const job = await acceptVendorJob({ described: [description], lists: { whatsapp: ['http:7'] } })
  const { rows } = await follow(job, job.batch(PHONES, { service: 'whatsapp' }))
  return rows.map(([, status, reason]) => `${status} ${reason}`)
}

const REGISTERED = ['valid registered', 'valid registered']

describe('a vendor that knows our reference', () => {
  it('is asked for the task whose reply was lost, and nothing is submitted again', async () => {
    const { url, tasks, seen } = await startVendor({ after: 1 })
    expect(await run(described(url, find(url)))).toEqual(REGISTERED)
    expect([tasks.length, seen.submits, seen.finds]).toEqual([1, 1, 1])
    expect(tasks[0]?.reference).toMatch(/^[0-9a-f]{32}$/)
  })

  it('gets the rows again if it has no task of that name', async () => {
    const { url, tasks, seen } = await startVendor({ before: 1 })
    expect(await run(described(url, find(url)))).toEqual(REGISTERED)
    expect([tasks.length, seen.submits, seen.finds]).toEqual([1, 2, 1])
  })

  it.each([{ before: 1 }, { after: 2 }])(
    'gets them again with the same reference if that is its idempotency key, %o', async (cut) => {
      const { url, tasks, seen } = await startVendor(cut)
      const description = described(
        url, { idempotent: true }, { 'Idempotency-Key': '{reference}' })
      expect(await run(description)).toEqual(REGISTERED)
      expect(tasks).toHaveLength(1)
      expect([...seen.idempotencyKeys]).toEqual([tasks[0]?.reference])
    })
})

it.each([
  ['http://169.254.169.254/latest/meta-data'], ['https://evil.example/results'],
  ['https://files.example.evil.org/x'], ['file:///etc/passwd'], [''],
])('the link to the results %s is not followed, as it is not of a described host', async (link) => {
  const { url, seen } = await startVendor()
  seen.result = link
  const result = { link: '/link', hosts: ['files.example', '.storage.example'] }
  const verdicts = await run(described(url, { result, deadlineMs: 30_000 }))
  expect(verdicts).toEqual(['unknown timeout', 'unknown timeout'])
})
