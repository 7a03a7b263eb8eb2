import { describe, expect, it } from 'vitest'
import { application } from '../doubles.ts'

const ask = (accept?: string) => application().app.inject({
  url: '/', headers: accept === undefined ? {} : { accept },
})

describe('the root', () => {
  it('lists the addresses of the API for programs', async () => {
    const answer = await ask()
    expect([answer.statusCode, answer.json()]).toEqual([200, {
      name: 'Verification Jobs',
      version: '2026-08-11',
      api: '/api/v1',
      documentation: '/docs',
      openapi: '/openapi.json',
      changelog: '/changelog',
    }])
    expect((await ask('*/*')).statusCode).toBe(200)
  })

  it('leads a browser to the page', async () => {
    const answer = await ask('text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8')
    expect([answer.statusCode, answer.headers.location]).toEqual([302, '/docs'])
    expect((await ask('image/png')).statusCode).toBe(406)
  })
})
