import { describe, expect, it } from 'vitest'
import { toAsciiUrl, webhookUrlError } from '../../../services/webhooks/url.ts'

const strict = { allowHttp: false, allowLoopback: false }
const development = { allowHttp: true, allowLoopback: true }

describe('an address for webhooks', () => {
  it.each([
    'https://hooks.example.co.uk:8443/in?a=b@c#d', 'HTTPS://EXAMPLE.COM/', 'https://example.com./',
    'https://пример.рф:8443/in', 'https://93.184.216.34/', 'https://[2606:4700::1111]/',
    'https://1.example.com/', `https://example.com/${'x'.repeat(2_028)}`,
  ])('may be %.50s', url => {
    expect(webhookUrlError(url, strict)).toBeUndefined()
  })

  /** `properties/webhook-addresses` has those that mislead or lead to other networks. */
  it.each([
    'HTTPS:example.com', 'https:/example.com',
    'https:///example.com', 'https://example.com:1023/', 'https://example.com:5432/',
    'https://example.com:6379/', 'https://example.com:9092/', 'https://example.com:0/',
  ])('is not %.50s', url => {
    expect(webhookUrlError(url, strict)).toMatch(/^(?:It|Webhooks) .*\.$/)
  })

  it.each([
    ['https://10.0.0.1/', /host is not a public address/], ['https://[fe80::1]/', /public address/],
    ['https://intranet/', /host is not a public name/], ['ftp://example.com/', /begin with https/],
    ['https://jane:pw@example.com/', /user name or password/], ['example.com', /absolute URL/],
    ['https://jane@example.com/', /user name or password/], ['', /absolute URL/],
    ['https://example.com:22/', /port 22/], ['https://example.com/'.padEnd(2_049, 'a'), /2048/],
  ])('is not %.50s, and reads why', (url, why) => {
    expect(webhookUrlError(url, strict)).toMatch(why)
  })

  it('is kept in ASCII', () => {
    expect(toAsciiUrl('https://bücher.example/in?a=1')).toBe('https://xn--bcher-kva.example/in?a=1')
    expect(toAsciiUrl('https://example.com/%7Ea')).toBe('https://example.com/%7Ea')
    expect(toAsciiUrl('')).toBe('')
  })

  it('may have a port that the installation allows, and 80 and 443 in any case', () => {
    const at = (port: number, ports: readonly number[] = []) =>
      webhookUrlError(`https://example.com:${port}/`, { ...strict, ports })
    expect([at(80), at(443), at(1_024), at(9_200, [9_200]), at(22, [22])])
      .toEqual([undefined, undefined, undefined, undefined, undefined])
    expect(at(9_200, [22])).toBe('Webhooks are not sent to port 9200. Use 443, or a free port ' +
      'from 1024 on.')
  })

  it.each(['http://127.0.0.1:9000/', 'https://localhost/', 'http://[::1]/', 'http://a.localhost/'])(
    'may be %s in development', url => {
      expect(webhookUrlError(url, development)).toBeUndefined()
    })
})
