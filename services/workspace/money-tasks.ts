import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { UsageError } from '../lib/run-command.ts'
import type { Task } from './options.ts'
import type { WorkspaceParts } from './parts.ts'
import { balanceShown, tenantFor } from './tasks.ts'

const COMPARED_WITHIN_MS = 30_000
const LOOK_EVERY_MS = 100

/** Corrects a balance by an explicit entry; one that is frozen has to be thawed first. */
export const adjust: Task = async (parts, options) => {
  const tenant = await tenantFor(parts, options)
  const { micros = '', reason = '', id = `adjust:${randomUUID()}` } = options
  const amountMicros = Number(micros)
  if (!/^-?\d+$/.test(micros) || !Number.isSafeInteger(amountMicros) || amountMicros === 0) {
    throw new UsageError('--micros is a whole number other than 0, like 2000 or -2000.')
  }
  if (reason.trim() === '') throw new UsageError('Say why, for the journal: --reason <text>.')
  const posting = await parts.wallet.adjust(tenant, { id, amountMicros, reason: reason.trim() })
  if (posting.kind === 'conflict') {
    throw new UsageError(`The id ${id} was used with another amount.`)
  }
  if (posting.kind === 'insufficient') {
    throw new UsageError(`Only ${posting.availableMicros} micros are available.`)
  }
  return { id, posting: posting.kind, amountMicros, ...await balanceShown(parts, tenant) }
}

/** Has a tenant compared with the journal once more, and says what came of it. */
export const thaw: Task = async (parts, options) => {
  const tenant = await tenantFor(parts, options)
  if (options['trust'] !== undefined && options['trust'] !== 'journal') {
    throw new UsageError('--trust takes "journal" and nothing else.')
  }
  await parts.gates.thaw(tenant, options['trust'] === 'journal')
  const { isOpen, frozen } = await comparedAgain(parts, tenant)
  if (!isOpen) return { tenant, state: 'waiting', note: 'No ledger has compared it yet.' }
  if (frozen !== '') return { tenant, state: 'frozen', why: frozen }
  return { state: 'thawed', ...await balanceShown(parts, tenant) }
}

async function comparedAgain ({ gates }: WorkspaceParts, tenant: string) {
  const until = Date.now() + COMPARED_WITHIN_MS
  for (;;) {
    const standing = await gates.standing(tenant)
    if (standing.isOpen || Date.now() >= until) return standing
    await pause(LOOK_EVERY_MS)
  }
}
