import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { ServiceSlug } from '../../../services/topology.ts'

/**
 * How all of them behave: as documented, or with one of the documented errors. `partial` leaves out
 * the first contact, `running` never ends a task, `lost` accepts a task and cuts the reply off.
 */
export type FakeMode =
  | 'well' | 'unauthorized' | 'limited' | 'empty' | 'broken' | 'partial' | 'running' | 'failed'
  | 'lost' | 'refusing'

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

/** A preset that answers at once, a contact that it is asked for, and the verdict that follows. */
type FakeVerdict = readonly [
  preset: string, service: ServiceSlug, contact: string, status: string, reason: string,
  fields: Readonly<Record<string, string>>
]

/** A preset that takes batches, the contacts of one, and the verdicts that follow. */
type FakeBatch = readonly [
  preset: string, service: ServiceSlug, contacts: readonly string[], verdicts: readonly string[]
]

/** The fake of a vendor: all that the tests of its descriptions in `deploy/providers/` need. */
export type FakeVendor = {
  /** A key as the vendor's console shows it; `{url}` becomes the address of the fakes. */
  readonly key: string
  /** What answers requests to paths with these prefixes. */
  readonly routes: Readonly<Record<string, Handler>>
  /** Of presets that answer at once. The first one of each is also asked with every error. */
  readonly verdicts?: readonly FakeVerdict[]
  /** Of presets that take batches. */
  readonly batches?: readonly FakeBatch[]
}

/** A number that the fakes know, and one that they do not. */
export const GOOD = '+12127365000'
export const BAD = '+12127365001'

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
