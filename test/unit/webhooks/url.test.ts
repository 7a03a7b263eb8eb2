import { describe, expect, it } from 'vitest'
import { asciiUrlOf, webhookUrlError } from '../../../services/webhooks/url.ts'

const strict = { allowHttp: false, allowLoopback: false }
const development = { allowHttp: true, allowLoopback: true }

describe('an address for webhooks', () => {
  it.each([
    'https://example.com', 'https://hooks.example.co.uk:8443/in?a=b@c#d', 'HTTPS://EXAMPLE.COM/',
    'https://xn--bcher-kva.example/', 'https://bücher.example/',
    'https://пример.рф:8443/in', 'https://93.184.216.34/', 'https://[2606:4700::1111]/',
    'https://example.com./', 'https://1.example.com/',
    `https://example.com/${'x'.repeat(2_028)}`,
  ])('may be %.50s', url => {
    expect(webhookUrlError(url, strict)).toBeUndefined()
  })

  it.each([
    '', 'example.com', '//example.com', '/hooks', 'https://', 'https:///', 'ftp://example.com/',
    'javascript:alert(1)', 'data:text/plain,x', 'file:///etc/passwd', 'http://example.com/',
    'https://user@example.com/', 'https://user:secret@example.com/', 'https://@example.com/',
    'https://:@example.com/', ' https://example.com/', 'https://example.com/a b',
    'https://exam\tple.com/', 'https://example.com/\n', 'https://example.com/bücher',
    'https://exa\u00admple.com/',
    'https://example\u3002com/',
    'https://example.com\\@other.example/', 'https://example.com:99999/',
    `https://example.com/${'x'.repeat(2_029)}`, 'https:example.com', 'https:/example.com',
    'https:///example.com', 'HTTPS:example.com', 'https://example.com:22/',
    'https://example.com:1023/', 'https://example.com:5432/', 'https://example.com:6379/',
    'https://example.com:9092/', 'https://example.com:0/',
  ])('is not %.50s', url => {
    expect(webhookUrlError(url, strict)).toMatch(/^(?:It|Webhooks) .*\.$/)
  })

  it.each([
    '127.0.0.1', '127.1', '0x7f.1', '0177.0.0.1', '2130706433', '0.0.0.0', '10.0.0.1',
    '172.16.0.1', '192.168.1.1', '169.254.169.254', '100.64.0.1', '224.0.0.1', '255.255.255.255',
    '168.63.129.16', '[::1]', '[::]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[fe80::1]',
    '[fc00::1]', '[2001:db8::1]', '[64:ff9b::7f00:1]', 'localhost', 'LOCALHOST', 'localhost.',
    'a.localhost', 'printer.local', 'db.internal', 'router.home.arpa', 'intranet', 'a..example',
    'example.com..',
  ])('is not at the host %s', host => {
    expect(webhookUrlError(`https://${host}/`, strict)).toBeDefined()
  })

  it('says which host is not public', () => {
    expect(webhookUrlError('https://10.0.0.1/', strict)).toBe('Its host is not a public address.')
    expect(webhookUrlError('https://intranet/', strict)).toBe('Its host is not a public name.')
  })

  it('is kept in ASCII', () => {
    expect(asciiUrlOf('https://bücher.example/in?a=1')).toBe('https://xn--bcher-kva.example/in?a=1')
    expect(asciiUrlOf('https://example.com/%7Ea')).toBe('https://example.com/%7Ea')
    expect(asciiUrlOf('')).toBe('')
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

  it.each(['http://10.0.0.1/', 'https://169.254.169.254/', 'http://intranet/'])(
    'is not %s even in development', url => {
      expect(webhookUrlError(url, development)).toBeDefined()
    })
})
