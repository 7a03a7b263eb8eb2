import { createSocket, type Socket } from 'node:dgram'
import { createServer, isIPv6, type Server } from 'node:net'

/** The records of a resolver for one name; an unknown name does not exist. */
export type Zone = {
  readonly mx?: readonly (readonly [preference: number, host: string])[]
  readonly a?: readonly string[]
  readonly aaaa?: readonly string[]
  readonly cname?: string
  readonly ns?: readonly string[]
  readonly ptr?: readonly string[]
  /** Each at most 255 bytes. */
  readonly txt?: readonly string[]
  /** Instead of an answer: a response code of RFC 1035, or silence. */
  readonly fault?: 'SERVFAIL' | 'REFUSED' | 'FORMERR' | 'silent' | 'garbage'
  /** The fault occurs only for queries of these records. */
  readonly faultOf?: keyof typeof TYPES
  /** The name does not exist for queries of these records, as some servers say (RFC 4074, 4.2). */
  readonly denied?: keyof typeof TYPES
  /** Answers over UDP are cut off, so that the query is repeated over TCP. */
  readonly truncated?: boolean
}

export type DnsServer = {
  readonly address: string
  readonly zones: Map<string, Zone>
  /** `type name` of every question, as they came. */
  readonly questions: string[]
  readonly stop: () => Promise<void>
}

const TYPES = { A: 1, NS: 2, CNAME: 5, PTR: 12, MX: 15, TXT: 16, AAAA: 28 } as const
/** Records of every resolver with access to the DNS; zones may override the name `.`. */
const ROOT = { '.': { ns: ['a.root-servers.net'] } }
const CODES = { SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5, FORMERR: 1, NOERROR: 0 } as const
const HEADER_BYTES = 12
const TTL_SECONDS = 60

type Question = { readonly name: string, readonly type: number, readonly raw: Buffer }

/**
 * A recursive resolver of its own zones, over UDP and TCP (RFC 1035), on a free port of 127.0.0.1
 * unless an address is named.
 */
export async function startDnsServer (
  zones: Readonly<Record<string, Zone>>,
  { host = '127.0.0.1', port: wanted = 0 }: { readonly host?: string, readonly port?: number } = {}
): Promise<DnsServer> {
  const known = new Map<string, Zone>(Object.entries({ ...ROOT, ...zones }))
  const questions: string[] = []
  const answer = (message: Buffer, udp: boolean): Buffer | undefined => {
    const question = readQuestion(message)
    const typeName = Object.entries(TYPES).find(([, type]) => type === question.type)?.[0]
    questions.push(`${typeName ?? question.type} ${question.name}`)
    return answerTo(question, known, udp)
  }
  const tcp = createServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', (data) => {
      const reply = answer(data.subarray(2), false)
      if (reply === undefined) return
      socket.end(Buffer.concat([uint16(reply.length), reply]))
    })
  })
  await new Promise<void>((resolve, reject) => {
    tcp.once('error', reject)
    tcp.listen(wanted, host, resolve)
  })
  const { port } = tcp.address() as { port: number }
  const udp = createSocket('udp4')
  udp.on('message', (message, from) => {
    const reply = answer(message, true)
    if (reply !== undefined) udp.send(reply, from.port, from.address)
  })
  await new Promise<void>((resolve) => { udp.bind(port, host, resolve) })
  const stop = () => stopBoth(udp, tcp)
  return { address: `${host}:${port}`, zones: known, questions, stop }
}

async function stopBoth (udp: Socket, tcp: Server): Promise<void> {
  await new Promise<void>((resolve) => { udp.close(resolve) })
  await new Promise<void>((resolve) => { tcp.close(() => resolve()) })
}

function answerTo (question: Question, zones: ReadonlyMap<string, Zone>, udp: boolean) {
  const zone = zones.get(question.name)
  if (zone === undefined) return reply(question, 'NXDOMAIN')
  const concerned = zone.faultOf === undefined || TYPES[zone.faultOf] === question.type
  if (zone.fault !== undefined && concerned) {
    if (zone.fault === 'silent') return undefined
    if (zone.fault === 'garbage') return question.raw.subarray(0, HEADER_BYTES - 5)
    return reply(question, zone.fault)
  }
  if (zone.denied !== undefined && TYPES[zone.denied] === question.type) {
    return reply(question, 'NXDOMAIN')
  }
  if (zone.truncated && udp) return reply(question, 'NOERROR', { truncated: true })
  const { records, missing } = recordsOf(question.name, question.type, zones)
  return reply(question, missing ? 'NXDOMAIN' : 'NOERROR', { records })
}

/** With the aliases on the way; an alias of a name that does not exist does not exist either. */
function recordsOf (name: string, type: number, zones: ReadonlyMap<string, Zone>):
{ records: Buffer[], missing: boolean } {
  const zone = zones.get(name)
  if (zone === undefined) return { records: [], missing: true }
  if (zone.cname !== undefined) {
    const alias = record(name, TYPES.CNAME, encodeName(zone.cname))
    const rest = recordsOf(zone.cname, type, zones)
    return { records: [alias, ...rest.records], missing: rest.missing }
  }
  const data = {
    [TYPES.MX]: zone.mx?.map(([preference, host]) =>
      Buffer.concat([uint16(preference), encodeName(host)])),
    [TYPES.A]: zone.a?.map(encodeAddress),
    [TYPES.NS]: zone.ns?.map(encodeName),
    [TYPES.PTR]: zone.ptr?.map(encodeName),
    [TYPES.TXT]: zone.txt?.map((text) =>
      Buffer.concat([Buffer.from([text.length]), Buffer.from(text)])),
    [TYPES.AAAA]: zone.aaaa?.map(encodeAddress),
  }[type] ?? []
  return { records: data.map((it) => record(name, type, it)), missing: false }
}

function reply (
  { raw }: Question, code: keyof typeof CODES,
  { records = [], truncated = false }: { records?: readonly Buffer[], truncated?: boolean } = {}
): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  raw.copy(header, 0, 0, 2)
  // A response, with recursion desired and available.
  header.writeUInt16BE(0x8180 | (truncated ? 0x0200 : 0) | CODES[code], 2)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(records.length, 6)
  return Buffer.concat([header, raw.subarray(HEADER_BYTES), ...records])
}

/** `raw` ends with the question, so that a reply can repeat it. */
function readQuestion (message: Buffer): Question {
  const labels: string[] = []
  let offset = HEADER_BYTES
  for (let size = message[offset] ?? 0; size > 0; size = message[offset] ?? 0) {
    labels.push(message.toString('latin1', offset + 1, offset + 1 + size))
    offset += size + 1
  }
  const raw = message.subarray(0, offset + 5)
  const type = message.readUInt16BE(offset + 1)
  return { name: labels.join('.').toLowerCase() || '.', type, raw }
}

function record (name: string, type: number, data: Buffer): Buffer {
  const ttl = Buffer.alloc(4)
  ttl.writeUInt32BE(TTL_SECONDS)
  return Buffer.concat([encodeName(name), uint16(type), uint16(1), ttl, uint16(data.length), data])
}

/** The empty name is the root. */
function encodeName (name: string): Buffer {
  const labels = name.split('.').filter((label) => label !== '')
  return Buffer.concat([
    ...labels.map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)])),
    Buffer.from([0]),
  ])
}

function encodeAddress (address: string): Buffer {
  if (!isIPv6(address)) return Buffer.from(address.split('.').map(Number))
  const [head = '', tail = ''] = address.split('::')
  const groups = (text: string) => text.split(':').filter((group) => group !== '')
  const zeros = Array.from({ length: 8 - groups(head).length - groups(tail).length }, () => '0')
  const all = [...groups(head), ...zeros, ...groups(tail)]
  return Buffer.concat(all.map((group) => uint16(Number.parseInt(group, 16))))
}

function uint16 (value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16BE(value)
  return bytes
}
