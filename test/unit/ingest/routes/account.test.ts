import { describe, expect, it } from 'vitest'
import { application } from '../doubles.ts'

describe('the services', () => {
  it('name the lists in use', async () => {
    const free = { mode: 'replace', version: '9', publishedAt: '2026-11-28', sha256: '' } as const
    const { get } = application({ lists: () => ({ renewedAt: '2026-11-28', lists: { free } }) })
    const { data } = (await get('/services')).json()
    const versions = data.map(({ data: used }: { data: { name: string, version: string }[] }) =>
      used.find(({ name }) => name === 'free_mail_domains')?.version)
    expect(versions).toEqual([undefined, undefined, undefined, undefined, undefined, '9'])
  })
})
