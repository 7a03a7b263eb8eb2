import { describe, expect, it } from 'vitest'
import { createSender, isNetwork } from '../../../services/deliver/sender.ts'
import { startHttpProxy } from '../../support/webhooks/http-proxy.ts'

/** Gets a request for every URL that passes, and refuses it: nothing leaves this machine. */
const proxy = await startHttpProxy({ behave: () => 502 })

const strict = { allowHttp: false, allowLoopback: false }

async function isAllowed (url: string, rules: object = strict): Promise<boolean> {
  const send = createSender({
    ...strict, ...rules, timeoutMs: 300_000, proxy: `http://127.0.0.1:${proxy.port}`,
  })
  const before = proxy.requests.length
  const { answer } = await send(url, { headers: {}, body: '{}' })
  const passed = proxy.requests.length > before
  expect(answer).toEqual({ kind: 'failed', reason: passed ? 'proxy_error' : 'blocked_address' })
  return passed
}

const areAllowed = async (urls: readonly string[], rules: object) => {
  const answers: boolean[] = []
  for (const url of urls) answers.push(await isAllowed(url, rules))
  return answers
}

describe('a webhook address', () => {
  it('on this machine is allowed only if configured', async () => {
    const hosts = ['127.0.0.1', '127.9.9.9', '[::1]', '10.0.0.1', '[::ffff:127.0.0.1]']
    expect(await areAllowed(hosts.map(host => `https://${host}/`), { allowLoopback: true }))
      .toEqual([true, true, true, false, false])
  })

  it('is not allowed in a denied network, though it is public', async () => {
    const denied = ['8.8.8.0/24', '2606:4700::/32']
    const hosts = ['8.8.8.8', '8.8.9.8', '[2606:4700:4700::1111]', '[2a00:1450:4001::1]']
    expect(await areAllowed(hosts.map(host => `https://${host}/`), { denied }))
      .toEqual([false, true, false, true])
    expect(['8.8.8.0/24', '::/0', '8.8.8.8', '8.8.8.8/33', 'a'].map(isNetwork))
      .toEqual([true, true, false, false, false])
  })

  it('must be https, without a user', async () => {
    const urls = [
      'https://8.8.8.8/', 'http://8.8.8.8/', 'https://user@8.8.8.8/', 'ftp://8.8.8.8/',
    ]
    expect(await areAllowed(urls, strict)).toEqual([true, false, false, false])
    expect(await areAllowed(urls, { allowHttp: true })).toEqual([true, true, false, false])
  })
})
