import { describe, expect, it } from 'vitest'
import { dnsEnvironment } from '../../../../deploy/local/dns.ts'

async function environment (env: NodeJS.ProcessEnv, hasDns: boolean) {
  const output: string[] = []
  const more = await dnsEnvironment(env, (line) => { output.push(line) }, async () => hasDns)
  return { more, output }
}

describe('the resolvers of a local stack', () => {
  it('are those of the system where they answer', async () => {
    expect(await environment({}, true)).toEqual({ more: {}, output: [] })
  })

  it('are none where those of the system do not answer, which is printed', async () => {
    expect(await environment({}, false)).toEqual({
      more: { DNS_SERVERS: '' }, output: [expect.stringContaining('do not answer')],
    })
  })

  it.each(['9.9.9.9', ''])('are those of DNS_SERVERS, "%s"', async (DNS_SERVERS) => {
    expect(await environment({ DNS_SERVERS }, false)).toEqual({ more: {}, output: [] })
  })
})
