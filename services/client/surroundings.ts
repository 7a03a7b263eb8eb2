import type { TransportOptions } from './transport.ts'
import {
  accountIn, connectionOf, type Connection, type ConnectionFlags,
} from './connection.ts'
import type { Account } from './run-state.ts'
import type { Streams } from './console.ts'

/** What a command finds around it; replaced by tests. */
export type Surroundings = Streams & {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Takes what is to be done at Ctrl-C. */
  readonly onInterrupt: (action: () => void) => void
  readonly clientOptions?: Partial<TransportOptions>
  /** Between two looks at a job. */
  readonly pollEveryMs?: number
}

/** Options that every command has. */
export type CommonFlags = ConnectionFlags & { readonly json?: true }

/** The connection of a command; says so when it is that of a local stack. */
export function openConnection (
  flags: CommonFlags, { env }: Surroundings, say: (line: string) => void
): Connection & { readonly account: Account } {
  const connection = connectionOf(flags, env)
  if (connection.isLocalStack) {
    say(`Using the local stack of ${flags.data}/stack.json at ${connection.baseUrl}.`)
  }
  return { ...connection, account: accountIn(connection) }
}
