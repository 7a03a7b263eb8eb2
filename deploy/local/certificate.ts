import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'

/** A certificate and its key, both PEM. */
export type Certificate = { readonly cert: string, readonly key: string }

const HOUR_MS = 3_600_000
const COMMON_NAME = '550403'
const SUBJECT_ALT_NAME = '551d11'
const ECDSA_WITH_SHA256 = '2a8648ce3d040302'

/** A DER value: its tag, its length and the content. */
function der (tag: number, ...contents: readonly Buffer[]): Buffer {
  const body = Buffer.concat(contents)
  const size = body.length
  const length = size < 128 ? [size] : size < 256 ? [0x81, size] : [0x82, size >> 8, size & 255]
  return Buffer.concat([Buffer.from([tag, ...length]), body])
}

const sequence = (...contents: readonly Buffer[]) => der(0x30, ...contents)
const oid = (hex: string) => der(0x06, Buffer.from(hex, 'hex'))

const utcTime = (date: Date) => der(0x17, Buffer.from(
  `${date.toISOString().replace(/[-:T]/g, '').slice(2, 14)}Z`))

function pem (label: string, content: Buffer): string {
  const lines = content.toString('base64').match(/.{1,64}/g) ?? []
  return [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`, ''].join('\n')
}

/**
 * A self-signed certificate (X.509 v3, P-256) for localhost and, if `hasAddress`, 127.0.0.1, good
 * for an hour unless said otherwise, and its key. Each has a name of its own, by which a client can
 * tell two apart.
 */
export function selfSigned (
  commonName: string, validForMs = HOUR_MS, hasAddress = true
): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const name = sequence(der(0x31, sequence(oid(COMMON_NAME), der(0x0c, Buffer.from(commonName)))))
  const names = sequence(
    der(0x82, Buffer.from('localhost')),
    ...hasAddress ? [der(0x87, Buffer.from([127, 0, 0, 1]))] : [])
  const algorithm = sequence(oid(ECDSA_WITH_SHA256))
  const serial = Buffer.concat([Buffer.from([1]), randomBytes(8)])
  const content = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, serial),
    algorithm,
    name,
    sequence(utcTime(new Date(Date.now() - 60_000)), utcTime(new Date(Date.now() + validForMs))),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(sequence(oid(SUBJECT_ALT_NAME), der(0x04, names)))))
  const signature = sign('sha256', content, privateKey)
  const signed = sequence(content, algorithm, der(0x03, Buffer.from([0]), signature))
  return {
    cert: pem('CERTIFICATE', signed),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}
