import { createHmac } from 'node:crypto'

/** What is signed: the id of the event, the time of the attempt and the body as it is sent. */
export type Signable = {
  readonly id: string
  /** Unix seconds. */
  readonly timestamp: number
  readonly body: string
}

const PREFIX = 'whsec_'

/**
 * The headers a receiver checks, with one signature for each active secret (`whsec_` and base64):
 * X-Service-Signature, an HMAC-SHA256 in hex over `<t>.<body>` with the whole text of the secret as
 * key; and those of Standard Webhooks 1.0.0, in base64 over `<id>.<t>.<body>` with the secret's
 * decoded bytes.
 */
export function signatureHeaders (
  { id, timestamp, body }: Signable, secrets: readonly string[]
): Readonly<Record<string, string>> {
  const own = secrets.map(secret =>
    `v1=${createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')}`)
  const standard = secrets.map(secret => {
    const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
    return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
  })
  return {
    'x-service-signature': [`t=${timestamp}`, ...own].join(','),
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': standard.join(' '),
  }
}
