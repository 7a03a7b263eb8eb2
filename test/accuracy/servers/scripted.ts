import { setTimeout as sleep } from 'node:timers/promises'
import type { Script } from '../../support/mail/mail-servers.ts'

/** Replies of a provider; lines of one reply are separated by line feeds. */
export type ProviderScript = {
  readonly greeting?: string
  /** Milliseconds before the greeting. */
  readonly greetingDelayMs?: number
  /** Milliseconds before the reply to a recipient. */
  readonly recipientDelayMs?: number
  /** The reply to a recipient; undefined accepts it. `drop` ends the connection. */
  readonly recipient?: (address: string) => string | undefined
}

const EXTENSIONS = ['PIPELINING', 'SIZE 35882577', '8BITMIME', 'ENHANCEDSTATUSCODES']

/** The script of a server that speaks as a provider. */
export function scriptOf (
  {
    greeting = '220 mx ESMTP', greetingDelayMs = 0, recipientDelayMs = 0, recipient,
  }: ProviderScript
): Script {
  const send = async (reply: string, delayMs: number) => {
    await sleep(delayMs)
    return reply.replaceAll('\n', '\r\n')
  }
  const answer = (line: string) => {
    const address = /<([^>]*)>/.exec(line)?.[1] ?? ''
    const reply = recipient?.(address) ?? '250 2.1.5 OK'
    // At once: the replies to earlier recipients of the same packet are lost with the connection.
    return reply === 'drop' ? reply : send(reply, recipientDelayMs)
  }
  return {
    GREETING: async () => await send(greeting, greetingDelayMs),
    EHLO: `250-mx at your service\r\n${EXTENSIONS.map(it => `250-${it}\r\n`).join('')}` +
      '250 SMTPUTF8',
    RCPT: answer,
    POSTMASTER: answer,
  }
}
