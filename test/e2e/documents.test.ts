import { describe, expect, it } from 'vitest'
import { closeAfterAll } from '../support/close-after-all.ts'
import { startEnvironment } from '../support/stacks/environment.ts'

const environment = closeAfterAll(await startEnvironment({}))

describe('the documents', () => {
  it('are open to all and describe what is served', async () => {
    const root = environment.baseUrl.replace('/api/v1', '')
    const read = async (path: string) => {
      const answer = await fetch(`${root}${path}`)
      return [answer.status, answer.headers.get('content-type'), await answer.text()] as const
    }
    const [status, type, text] = await read('/openapi.json')
    expect([status, type]).toEqual([200, 'application/json; charset=utf-8'])
    expect(JSON.parse(text)).toMatchObject({ openapi: '3.1.0', info: { version: '2026-08-11' } })
    expect((await read('/docs'))[2]).toContain('/api/v1/jobs/{id}/cancel')
    expect((await read('/changelog'))[2]).toContain('## 2026-08-11')
  })
})
