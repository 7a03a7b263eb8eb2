import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

/**
 * How all of them behave: as documented, or with one of the documented errors. `partial` leaves out
 * the first contact, `running` never ends a task, `lost` accepts a task and cuts the reply off.
 */
export type FakeMode =
  | 'well' | 'unauthorized' | 'limited' | 'empty' | 'broken' | 'partial' | 'running' | 'failed'
  | 'lost' | 'refusing'

/** Keys as the vendors' consoles show them. */
export const FAKE_KEYS: Readonly<Record<string, string>> = {
  VENDOR_TWILIO_KEY: 'AC0f1e2d3c4b5a69788796a5b4c3d2e1f0:tw:9f8e7d6c5b4a',
  VENDOR_TELNYX_KEY: 'KEY0190A1B2C3D4E5F6_telnyxsecret',
  VENDOR_VONAGE_KEY: 'a1b2c3d4:vonageSecret1',
  VENDOR_BOUNCER_KEY: 'bouncerKey0123456789abcdef',
  VENDOR_ZEROBOUNCE_KEY: 'zb0123456789abcdef0123456789abcd',
  VENDOR_CHECKNUMBER_KEY: 'cnkey0123456789',
}

/** An answer; one that is cut off was made, but does not arrive. */
export type Reply = { readonly status?: number, readonly body: unknown, readonly cut?: true }

/** A request to a vendor. */
export type Asked = {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage['headers']
  readonly json: () => unknown
  readonly form: () => Promise<FormData>
  readonly url: string
}

/** Contacts that a vendor has taken. */
export type Task = {
  readonly contacts: readonly string[]
  readonly product?: string
  polls: number
}

/** What all vendors share. */
export type Shared = {
  readonly mode: () => FakeMode
  readonly buy: (contacts: readonly string[], file?: string) => void
  readonly tasks: Map<string, Task>
}

/** A vendor. */
export type Handler = (asked: Asked, shared: Shared) => Reply | Promise<Reply>

const AUTH_STATUS = { unauthorized: 401, limited: 429, empty: 402, broken: 500 } as const

/** What a vendor answers instead, in its own words, if it fails. */
export function failing (
  { mode }: Shared, bodyOf: (status: number) => unknown, refused: Reply = { status: 400, body: '' }
): Reply | undefined {
  const now = mode()
  if (now === 'refusing') return refused
  if (!Object.hasOwn(AUTH_STATUS, now)) return undefined
  const status = AUTH_STATUS[now as keyof typeof AUTH_STATUS]
  return { status, body: bodyOf(status) }
}

/** Numbers that end in an even digit are known. */
export const isGood = (number: string) => Number(number.at(-1)) % 2 === 0
/** The header of basic authentication. */
export const basic = (key: string) => `Basic ${Buffer.from(key).toString('base64')}`

type Accepted = { readonly product?: string, readonly file?: string }

/** Takes contacts as a task, which is charged for; returns its id. */
export function accepted (
  shared: Shared, contacts: readonly string[], { product, file }: Accepted = {}
): string {
  const id = `task-${randomUUID()}`
  shared.buy(contacts, file)
  shared.tasks.set(id, { contacts, polls: 0, ...product === undefined ? {} : { product } })
  return id
}

/** A task ends between the first and the second question for it. */
export function hasEnded (task: Task, { mode }: Shared): boolean {
  task.polls++
  return task.polls > 1 && mode() !== 'running'
}

/** The contacts that the results of a task have. */
export const answered = ({ contacts }: Task, { mode }: Shared) =>
  mode() === 'partial' ? contacts.slice(1) : contacts
