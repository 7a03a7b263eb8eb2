import type { Zone } from '../mail/dns-server.ts'

/** Notations of addresses of this machine and of internal networks, as hosts of a URL. */
export const LITERALS: Readonly<Record<string, readonly string[]>> = {
  'this machine, version 4': [
    '127.0.0.1', '127.1', '127.0.1', '127.00.00.01', '127.000.000.001', '127.127.127.127',
    '127.255.255.254', '0x7f.0.0.1', '0x7f.0x0.0x0.0x1', '0X7F.1', '0x7f.1', '0x7f000001',
    '0x000000007f000001', '0177.0.0.1', '0177.0.0.01', '0177.0000.0000.0001', '0177.1', '0177.0.1',
    '017700000001', '00000017700000001', '2130706433', '2130706434', '0x7f.0.1', '127.0x0.0x1',
    '127.0.0.0x1', '0', '00', '0x0', '0.0', '0.0.0', '0.0.0.0', '0000.0.0.0', '0.0.0.1', '1',
    '127.0.0.1.', '127.1.', '2130706433.', '0x7f000001.',
  ],
  'this machine, version 6': [
    '[::1]', '[0:0:0:0:0:0:0:1]', '[0000:0000:0000:0000:0000:0000:0000:0001]', '[::0001]', '[0::1]',
    '[::]', '[0:0:0:0:0:0:0:0]', '[::0]',
  ],
  'version 4 within version 6': [
    '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::FFFF:127.0.0.1]', '[0:0:0:0:0:ffff:127.0.0.1]',
    '[0000::ffff:7f00:0001]', '[::ffff:0:127.0.0.1]', '[::ffff:0:7f00:1]', '[::127.0.0.1]',
    '[::7f00:1]', '[::ffff:10.0.0.1]', '[::ffff:169.254.169.254]', '[::ffff:a9fe:a9fe]',
    '[::ffff:192.168.1.1]', '[::ffff:0.0.0.0]', '[::10.0.0.1]', '[::a9fe:a9fe]',
  ],
  'version 4 behind a translation or a tunnel': [
    '[64:ff9b::127.0.0.1]', '[64:ff9b::7f00:1]', '[64:ff9b::10.0.0.1]', '[64:ff9b::a9fe:a9fe]',
    '[64:ff9b::192.168.0.1]', '[64:ff9b:1::]', '[64:ff9b:1::1]', '[64:ff9b:1::7f00:1]',
    '[64:ff9b:1:ffff:ffff:ffff:7f00:1]', '[2002:7f00:1::]', '[2002:7f00:1::1]', '[2002:a00:1::]',
    '[2002:a9fe:a9fe::]', '[2002:c0a8:101::1]', '[2001:0:7f00:1::]', '[2001::1]',
    '[2001:0:4136:e378:8000:63bf:80ff:fffe]', '[2001:0:5ef5:79fd::5601:5601]',
  ],
  'private networks': [
    '10.0.0.0', '10.0.0.1', '10.255.255.255', '012.0.0.1', '0xa.0.0.1', '0x0a000001', '167772161',
    '10.1', '172.16.0.1', '172.31.255.255', '0xac.16.0.1', '2886729729', '192.168.0.1',
    '192.168.255.255', '0xc0.0xa8.0.1', '0300.0250.0.1', '3232235521', '192.168.1', '[fc00::]',
    '[fc00::1]', '[fd00::1]', '[fd12:3456:789a:1::1]', '[fdff:ffff::1]', '[fec0::1]',
    '[feff::1]',
  ],
  'carrier-grade translation and protocol assignments': [
    '100.64.0.1', '100.127.255.255', '0x64.64.0.1', '1681915905', '192.0.0.1', '192.0.0.8',
    '192.0.0.170', '192.88.99.1', '198.18.0.1', '198.19.255.255', '[2001:2::1]',
    '[2001:10::1]', '[2001:20::1]', '[100::1]', '[100:0:0:1::1]', '[5f00::1]',
  ],
  'link-local, also with zones': [
    '169.254.0.1', '169.254.255.255', '[fe80::1]', '[fe80::]', '[febf::1]', '[fe80::a9fe:a9fe]',
    '[fe80::1%25lo]', '[fe80::1%25eth0]', '[fe80::1%lo]', '[::1%25lo]', '[::1%lo]',
  ],
  'multicast, broadcast and what is reserved': [
    '224.0.0.1', '224.0.0.251', '239.255.255.250', '232.0.0.1', '240.0.0.1', '250.1.2.3',
    '255.255.255.255', '0xffffffff', '4294967295', '037777777777', '[ff01::1]', '[ff02::1]',
    '[ff02::fb]', '[ff05::1:3]', '[ff0e::1]',
  ],
  documentation: [
    '192.0.2.1', '192.0.2.2', '198.51.100.1', '203.0.113.1', '0xc0000201', '[2001:db8::1]',
    '[2001:db8:ffff::1]', '[3fff::1]', '[3fff:fff::1]',
  ],
  'metadata of clouds': [
    '169.254.169.254', '0xa9fea9fe', '0xa9.0xfe.0xa9.0xfe', '2852039166', '025177524776',
    '0251.0376.0251.0376', '169.16689662', '169.254.43518', '169.254.169.254.', '169.254.169.253',
    '169.254.170.2', '169.254.170.23', '169.254.42.42', '169.254.0.23', '100.100.100.200',
    '0x646464c8', '192.0.0.192', '168.63.129.16', '0xa83f8110', '161.26.0.10', '192.80.8.124',
    '[fd00:ec2::254]', '[fd00:ec2::23]', '[fd20:ce::254]', '[fd00:42::42]',
    '[::ffff:168.63.129.16]',
  ],
}

/** Names of this machine, of internal networks and of cloud metadata services. */
const PRIVATE_NAMES: readonly string[] = [
  'localhost', 'LOCALHOST', 'LocalHost', 'localhost.', 'a.localhost', 'b.a.localhost.',
  'localhost.localdomain', 'localhost6.localdomain6', 'ip6-localhost', 'ip6-loopback',
  'broadcasthost',
  'metadata', 'metadata.google.internal', 'metadata.google.internal.', 'METADATA.GOOGLE.INTERNAL',
  'metadata.azure.internal', 'instance-data', 'instance-data.ec2.internal', 'rancher-metadata',
  'ip-10-0-0-1.ec2.internal', 'ip-10-0-0-1.eu-west-1.compute.internal', 'host.docker.internal',
  'gateway.docker.internal', 'kubernetes', 'kubernetes.default.svc',
  'kubernetes.default.svc.cluster.local', 'vault.service.consul', 'redis', 'kafka', 'clickhouse',
  'wpad', 'printer.local', 'router.lan', 'nas.home', 'router.home.arpa', 'mail.corp',
  'wiki.intranet', 'db.private', 'hidden.onion', 'a..example', 'example.com..', '.example.com',
  '1.0.0.127.in-addr.arpa',
]

/** Whole addresses that are invalid, misleading, or hide a host. */
const ODD_ADDRESSES: readonly string[] = [
  '', ' ', 'https', 'https:', 'https://', 'https:///', 'https://?', 'https://#', 'https://:{port}/',
  'https://[', 'https://[]/', 'https://[::1', 'https://::1/', 'https://[::ffff:127.0.0.1/',
  'https://[127.0.0.1]/', 'https://127.0.0.1:99999/', 'https://127.0.0.1:-1/',
  'https://256.256.256.256/', 'https://127.0.0.1.1/', 'https://0x100000000/',
  '//127.0.0.1:{port}/', '/hook', '127.0.0.1:{port}', 'localhost:{port}',
  'http://127.0.0.1:{port}/', 'http://example.com/', 'HTTP://example.com/', 'ftp://127.0.0.1/',
  'file:///etc/passwd', 'file://127.0.0.1/etc/passwd', 'gopher://127.0.0.1:{port}/_x',
  'dict://127.0.0.1:{port}/', 'ldap://127.0.0.1:{port}/', 'tftp://127.0.0.1:{port}/',
  'ws://127.0.0.1:{port}/', 'wss://127.0.0.1:{port}/', 'jar:https://127.0.0.1!/', 'javascript:0',
  'data:text/plain,x', 'blob:https://127.0.0.1/x', 'unix:/var/run/docker.sock',
  'http+unix://%2Fvar%2Frun%2Fdocker.sock/', 'netdoc:///etc/passwd', 'view-source:https://a.com/',
  'https:127.0.0.1:{port}/', 'https:/127.0.0.1:{port}/', 'https:////127.0.0.1:{port}/',
  'https:\\\\127.0.0.1:{port}\\', 'https://127.0.0.1\\@example.com/',
  'https://example.com\\@127.0.0.1:{port}/', 'https://user@127.0.0.1:{port}/',
  'https://user:secret@example.com/', 'https://example.com@127.0.0.1:{port}/',
  'https://example.com:443@127.0.0.1:{port}/', 'https://example.com%40127.0.0.1:{port}/',
  'https://@127.0.0.1:{port}/', 'https://@example.com/', 'https://:@example.com/',
  'https://127.0.0.1:{port}@example.com/', 'https://a@b@127.0.0.1:{port}/',
  'https://127.0.0.1:{port}#@example.com/', 'https://127.0.0.1:{port}?@example.com/',
  'https://127.0.0.1:{port};@example.com/', 'https://127.0.0.1 :{port}/',
  'https:// 127.0.0.1:{port}/', ' https://127.0.0.1:{port}/', 'https://127.0.0.1:{port}/ ',
  'https://127.0.0.1\t:{port}/', 'ht\ntps://127.0.0.1:{port}/', 'https://exam\tple.com/',
  'https://127.0.0.1\r\nHost: example.com/', 'https://127.0.0.1%00.example.com/',
  'https://127.0.0.1%0d%0a/', 'https://%31%32%37.0.0.1:{port}/', 'https://%6c%6fcalhost:{port}/',
  'https://127%2e0%2e0%2e1:{port}/', 'https://①②⑦.0.0.1:{port}/', 'https://１２７.０.０.１:{port}/',
  'https://127。0。0。1:{port}/', 'https://127．0．0．1:{port}/', 'https://127｡0｡0｡1:{port}/',
  'https://𝟏𝟐𝟕.𝟎.𝟎.𝟏:{port}/', 'https://𝟙𝟚𝟟.1:{port}/', 'https://٠١٢٧.0.0.1:{port}/',
  'https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:{port}/', 'https://ｌｏｃａｌｈｏｓｔ:{port}/', 'https://lo\u00adcalhost:{port}/',
  'https://local\u200bhost:{port}/', 'https://127.0.0.1\u2024example.com/',
  'https://[::①]/', 'https://0x７f.1/', 'https://127.0.0.1\u0000/',
]

const PUBLIC_V6 = '2606:4700:4700::1111'

/**
 * Ordinary names, and the records of their servers. Every one leads to a network that
 * nothing may be sent to, at least by one of its addresses.
 */
export const ZONES: Readonly<Record<string, Zone>> = {
  'plain.rebound.net': { a: ['127.0.0.1'] },
  'six.rebound.net': { aaaa: ['::1'] },
  'both.rebound.net': { a: ['127.0.0.1'], aaaa: ['::1'] },
  'zero.rebound.net': { a: ['0.0.0.0'] },
  'zero6.rebound.net': { aaaa: ['::'] },
  'other.rebound.net': { a: ['127.9.8.7'] },
  'ten.rebound.net': { a: ['10.0.0.1'] },
  'home.rebound.net': { a: ['192.168.0.1'] },
  'middle.rebound.net': { a: ['172.16.0.1'] },
  'carrier.rebound.net': { a: ['100.64.0.1'] },
  'link.rebound.net': { a: ['169.254.1.1'] },
  'link6.rebound.net': { aaaa: ['fe80::1'] },
  'unique.rebound.net': { aaaa: ['fd00::2'] },
  'documents.rebound.net': { a: ['192.0.2.2'] },
  'many.rebound.net': { a: ['224.0.0.1'] },
  'all.rebound.net': { a: ['255.255.255.255'] },
  'mapped.rebound.net': { aaaa: ['0:0:0:0:0:ffff:7f00:1'] },
  'compatible.rebound.net': { aaaa: ['::7f00:1'] },
  'nat64.rebound.net': { aaaa: ['64:ff9b::7f00:1'] },
  'nat64local.rebound.net': { aaaa: ['64:ff9b:1::7f00:1'] },
  'sixtofour.rebound.net': { aaaa: ['2002:7f00:1::'] },
  'teredo.rebound.net': { aaaa: ['2001:0:7f00:1::'] },
  'imds.rebound.net': { a: ['169.254.169.254'] },
  'imds6.rebound.net': { aaaa: ['fd00:ec2::254'] },
  'azure.rebound.net': { a: ['168.63.129.16'] },
  'alibaba.rebound.net': { a: ['100.100.100.200'] },
  'ibm.rebound.net': { a: ['161.26.0.10'] },
  'metadata.tencentyun.com': { a: ['169.254.0.23'] },
  'mixed.rebound.net': { a: ['8.8.8.8', '127.0.0.1'] },
  'mixed-first.rebound.net': { a: ['127.0.0.1', '8.8.8.8'] },
  'mixed-six.rebound.net': { a: ['8.8.8.8'], aaaa: ['::1'] },
  'mixed-four.rebound.net': { a: ['10.0.0.1'], aaaa: [PUBLIC_V6] },
  'mixed-mapped.rebound.net': { aaaa: [PUBLIC_V6, '::ffff:7f00:1'] },
  'alias.rebound.net': { cname: 'plain.rebound.net' },
  'alias-local.rebound.net': { cname: 'localhost' },
  localhost: { a: ['127.0.0.1'], aaaa: ['::1'] },
  'alias-one.rebound.net': { cname: 'alias-two.rebound.net' },
  'alias-two.rebound.net': { cname: 'alias-three.rebound.net' },
  'alias-three.rebound.net': { cname: 'metadata.google.internal' },
  'metadata.google.internal': { a: ['169.254.169.254'] },
  'cut.rebound.net': { a: ['127.0.0.1'], truncated: true },
  '127.0.0.1.nip.io': { a: ['127.0.0.1'] },
  '7f000001.nip.io': { a: ['127.0.0.1'] },
  '169.254.169.254.sslip.io': { a: ['169.254.169.254'] },
  'localtest.me': { a: ['127.0.0.1'], aaaa: ['::1'] },
  'lvh.me': { a: ['127.0.0.1'] },
  'xn--bcher-kva.rebound.net': { a: ['127.0.0.1'] },
  '_dmarc.rebound.net': { a: ['127.0.0.1'] },
}

/** Names that only stand behind others, or that a request for a job is refused for at once. */
const NOT_ASKED = ['localhost', 'alias-two.rebound.net', 'alias-three.rebound.net',
  'metadata.google.internal']

/** Names that a request may contain: their text reveals nothing. */
export const REBOUND_NAMES: readonly string[] =
  Object.keys(ZONES).filter(name => !NOT_ASKED.includes(name))

/** Addresses that a request for a job is refused for at once; `port` is that of a canary. */
export function refusedAddresses (port: number): readonly string[] {
  const hosts = [...Object.values(LITERALS).flat(), ...PRIVATE_NAMES]
  const withPorts = ['127.0.0.1', 'localhost', '[::1]', '10.0.0.1', '169.254.169.254']
    .flatMap(host => [80, 443, 8443, 22, 6379, 9092, 65_535].map(it => `https://${host}:${it}/`))
  return [
    ...hosts.map(host => `https://${host}:${port}/hook`),
    ...ODD_ADDRESSES.map(address => address.replace('{port}', String(port))),
    ...withPorts,
  ]
}
