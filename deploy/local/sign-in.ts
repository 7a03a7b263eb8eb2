import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Account } from './access.ts'

/** Whether a request carries this account, compared in constant time. */
export function isSignedIn (request: IncomingMessage, account: Account): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  const { authorization = '' } = request.headers
  return timingSafeEqual(digest(authorization), digest(basicAuthorization(account)))
}

/** The value of the header `Authorization` of an account. */
export function basicAuthorization ({ username, password }: Account): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}
