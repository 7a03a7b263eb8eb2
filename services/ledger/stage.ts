import { FatalError, InfrastructureError } from '../lib/errors.ts'
import { failpoint } from '../lib/failpoint.ts'
import { createTurns } from '../lib/release.ts'
import type { Incoming, Stage } from '../lib/stage.ts'
import { continueChain, START, type ChainHead } from '../records/journal-chain.ts'
import type { JournalCopy } from '../records/journal-copy.ts'

export type LedgerParts = {
  readonly journal: Pick<JournalCopy, 'heads' | 'append'>
  /** Messages handed to one call of `decide`. */
  readonly batch: number
}

type Entry = Incoming<'wallet.journal'>

/** How far a tenant's chain is, and entries that came before their predecessors. */
type Account = { readonly head: ChainHead, readonly held: readonly Entry[] }

/**
 * Copies the journal into a chain a tenant. Entries come more than once and not always in order:
 * those it has are skipped, and those behind a gap are held until the missing one comes, which the
 * outbox still has. An entry is chained by its content alone, so several ledgers make one chain.
 */
export function createLedgerStage ({ journal, batch }: LedgerParts): Stage<'ledger'> {
  let accounts = new Map<string, Account>()
  // Entries of a tenant come by one partition, and copies of them by any they were sent to:
  // of two decisions at once, the later one would put an older head back.
  const turns = createTurns()

  const copy = async (messages: readonly Entry[]) => {
    // What `forget` drops while this waits must not come back.
    const known = accounts
    const byTenant = Map.groupBy(messages, ({ value }) => value.tenant)
    const strangers = [...byTenant.keys()].filter(tenant => !known.has(tenant))
    const heads = await waited(() => journal.heads(strangers))
    failpoint('ledger.read')
    const moves = [...byTenant].map(([tenant, fresh]) => {
      const { head, held } = known.get(tenant) ?? { head: heads.get(tenant) ?? START, held: [] }
      return { tenant, ...advance(head, [...held, ...fresh]) }
    })
    await waited(() => journal.append(moves.flatMap(({ links }) => links)))
    failpoint('ledger.appended')
    for (const { tenant, head, held } of moves) known.set(tenant, { head, held })
    const finishes = moves.flatMap(({ finished }) => finished)
    return finishes.length === 0 ? [] : [{ finishes, emits: [] }]
  }
  return {
    name: 'ledger',
    batch,
    decide: messages => turns.take('copy', () => copy(messages)),
    whenDead: async () => {
      throw new FatalError('an entry of the journal cannot be read, and none may be left out')
    },
    forget: () => { accounts = new Map() },
  }
}

/**
 * Whatever the copy fails with is waited for: an entry given up would leave a gap for ever, behind
 * which a tenant's whole chain would stand still.
 */
async function waited<T> (action: () => Promise<T>): Promise<T> {
  try {
    return await action()
  } catch (cause) {
    throw new InfrastructureError('the copy of the journal is not to be had', { cause })
  }
}

function advance (from: ChainHead, entries: readonly Entry[]) {
  const { links, head } = continueChain(from, entries.map(({ value }) => value))
  const finished = entries.filter(({ value }) => value.seq <= head.seq)
  const held = entries.filter(({ value }) => value.seq > head.seq)
  return { links, head, finished, held }
}
