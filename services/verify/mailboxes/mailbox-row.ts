import type { MailHost } from '../providers/mail-domains.ts'
import type { LaterCheck } from '../provider.ts'
import type { Meaning } from './replies.ts'

/** The result for a mailbox; `late`: it was not asked, or did not answer, in time. */
export type Mailbox =
  | Exclude<Meaning, 'limited'> | 'unreachable' | 'no_answer' | 'late'

/** The host answers the same to everything. */
export const UNTRUTHFUL = { mailbox: 'accepted', acceptance: 'accepts_any' } as const

export type Probed = {
  readonly mailbox: Mailbox
  /** Only words of the reply say so, and no enhanced code. */
  readonly byWords?: true
  /** Whether the domain accepts mail for any name; undefined if unknown. */
  readonly catchAll?: boolean | undefined
  /** What acceptance means at a host whose ways are known, which is not tested for catch-all. */
  readonly acceptance?: 'truthful' | 'accepts_any'
  /** A later question may have a better result. */
  readonly retry?: true | LaterCheck
}

/** An address in question. */
export class MailboxRow {
  readonly address: string
  readonly domain: string
  readonly tenant: string
  readonly hosts: readonly MailHost[]
  readonly answer: Promise<Probed>
  readonly settle: (probed: Probed) => void
  /** The host that it waits for, or is asked of. */
  at = 0
  /** What earlier hosts say of it. */
  last: Probed = { mailbox: 'unreachable', retry: true }
  /** Sessions that were lost with it. */
  losses = 0
  /** How often it was put into a queue. */
  rounds = 0
  /** A session has taken it. */
  isBegun = false
  /** Nobody waits for it any more. */
  isWithdrawn = false
  /** Where it waits. */
  queue: { readonly withdraw: () => void } | undefined

  constructor (address: string, { tenant, hosts }: Pick<MailboxRow, 'tenant' | 'hosts'>) {
    this.address = address
    this.domain = address.slice(address.lastIndexOf('@') + 1)
    this.tenant = tenant
    this.hosts = hosts
    const { promise, resolve } = Promise.withResolvers<Probed>()
    this.answer = promise
    this.settle = resolve
  }
}
