import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { formatUsd, MAX_AMOUNT_MICROS, parseMicros, usdToMicros } from '../money/prices.ts'
import type { ManualMovement, Posting } from '../money/wallet.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import {
  type AdminCommand, type Context, runTask, type Task, type TaskResult, tenantToChange,
  tenantToRead,
} from './command-line.ts'
import type { WorkspaceDeps } from './deps.ts'

const COMPARE_TIMEOUT_MS = 30_000
const POLL_MS = 100
/** The ledger that leads ships an entry in its next round, two seconds after the last one. */
const SHIPPED_WITHIN_MS = 5_000

/** Adds `topup`, `adjust`, `thaw`, `balance` and `outbox`. */
export function addBalances (program: AdminCommand, context: Context): void {
  const add = (name: string, description: string) =>
    program.command(name).description(description)
      .requiredOption('--org <id>', 'organization')
      .option('--mode <mode>', 'live or test', 'live')
  add('topup', 'add money to a balance')
    .records('balance.topped_up')
    .option('--usd <amount>', 'amount in USD, for example 12.50')
    .option('--micros <amount>', 'amount in USD micros')
    .option('--id <id>', 'id of the payment; a repeated id adds nothing (default: a new one)')
    .option('--reason <text>', 'reason, for operators: in the journal and the access log')
    .option('--note <text>', 'text for the customer, shown with the top-up')
    .example('--org org_1 --usd 250 --id invoice-2030-17')
    .action(runTask(context, topUp(context)))
  add('adjust', 'correct a balance with a journal entry')
    .records('balance.adjusted')
    .requiredOption('--micros <amount>', 'amount in USD micros; negative to subtract')
    .requiredOption('--reason <text>', 'reason, for operators: in the journal and the access log')
    .option('--note <text>', 'text for the customer, shown with the correction')
    .option('--id <id>', 'id of the adjustment; a repeated id changes nothing (default: a new one)')
    .example('--org org_1 --micros -2000 --reason "charged twice"')
    .action(runTask(context, adjust(context)))
  add('thaw', 'compare a frozen balance with the journal again')
    .records('balance.thawed')
    .option('--trust <what>', '"journal": set the balance to what the journal adds up to')
    .example('--org org_1 --mode live')
    .action(runTask(context, thaw))
  add('balance', 'show a balance, and its movements that only Redis has')
    .reads()
    .example('--org org_1')
    .action(runTask(context, showBalance))
  program.command('outbox')
    .description('list movements of all balances that only Redis has, the oldest first')
    .reads()
    .addHelpText('after', '\nOne that is there for longer than seconds was not shipped: see ' +
      'OutboxNotShipped in\ndeploy/docs/runbook.md.')
    .example()
    .action(runTask(context, listOutboxes))
}

/** Adds money. Repeating the id of an earlier top-up adds nothing. */
const topUp = (context: Context): Task => async (deps, options) => {
  const tenant = await tenantToChange(deps, options)
  const { usd, micros, reason = 'top-up', note } = options
  if ((usd === undefined) === (micros === undefined)) {
    throw new UsageError('Pass the amount as either --usd or --micros.')
  }
  const amountMicros = usd === undefined ? parseMicros(micros ?? '') : usdToMicros(usd)
  const movement = { id: chooseId(context, options), amountMicros, reason, note }
  const posting = await deps.wallet.topUp(tenant, movement)
  return await reportPosting(deps, tenant, { ...movement, type: 'topup' }, posting)
}

/** Corrects a balance with a journal entry. A frozen balance has to be thawed first. */
const adjust = (context: Context): Task => async (deps, options) => {
  const tenant = await tenantToChange(deps, options)
  const { micros = '', note } = options
  const amountMicros = parseMicros(micros, 'signed')
  const reason = options.reason?.trim() ?? ''
  if (reason === '') {
    throw new UsageError('--reason is empty. Pass a reason for the journal: --reason <text>.')
  }
  const movement = { id: chooseId(context, options), amountMicros, reason, note }
  const posting = await deps.wallet.adjust(tenant, movement)
  return await reportPosting(deps, tenant, { ...movement, type: 'adjust' }, posting)
}

/** Waits until the entry is in the journal topic; the answer has a warning if it is not. */
async function reportPosting (
  deps: WorkspaceDeps, tenant: string,
  { type, id, amountMicros }: ManualMovement & { readonly type: 'topup' | 'adjust' },
  posting: Posting
): Promise<TaskResult> {
  if (posting.kind === 'conflict') {
    throw new UsageError(`the id ${id} was already used with an amount other than ` +
      `${amountMicros} micros. Pass another --id, or the same amount.`)
  }
  if (posting.kind === 'insufficient') {
    throw new UsageError(`cannot subtract ${-amountMicros} micros from ${tenant}: only ` +
      `${posting.availableMicros} micros are available.`)
  }
  if (posting.kind === 'too_much') {
    throw new UsageError(`cannot add ${amountMicros} micros to ${tenant}: its funded amount ` +
      `is ${posting.fundedMicros}, and the maximum is ${MAX_AMOUNT_MICROS}.`)
  }
  const { kind } = posting
  const isShipped = await poll(
    () => deps.wallet.isShipped(tenant, type, { id }), shipped => shipped, SHIPPED_WITHIN_MS)
  return {
    id,
    posting: kind,
    amountMicros,
    ...await readBalance(deps, tenant),
    ...!isShipped && {
      warning: 'The movement is stored in Redis but not yet in Kafka: it is lost if Redis loses ' +
        'its files now. The leading ledger copies it to the topic "wallet.journal"; see ' +
        'OutboxNotShipped in deploy/docs/runbook.md.',
    },
  }
}

/**
 * The id of a movement, a new one by default. That is shown before money moves, because a command
 * that fails afterwards has to be repeated with the same id: with another one, the money would move
 * twice.
 */
function chooseId ({ errors }: Context, { id }: { readonly id?: string | undefined }): string {
  if (id === '') throw new UsageError('--id is empty. Pass the id of the payment, or no --id.')
  if (id !== undefined) return id
  const newId = randomUUID()
  errors.write(`The id is ${newId}. If this command fails, repeat it with --id ${newId}.\n`)
  return newId
}

/**
 * Requests another comparison of a frozen balance with the journal, or of any one if the journal
 * is to be trusted, and returns its outcome. The jobs of an organization that is being erased
 * cannot end while its balance is frozen.
 */
const thaw: Task = async (deps, options) => {
  const tenant = await tenantToRead(deps, options)
  const { trust } = options
  if (trust !== undefined && trust !== 'journal') {
    throw new UsageError(`--trust must be "journal", not "${trust}".`)
  }
  const before = await deps.gates.read(tenant)
  // A contradiction below the snapshot of a tenant freezes it only once the snapshot is lost.
  if (trust === undefined && before.isUnlocked && before.frozen === '') {
    return { state: 'not_frozen', ...await readBalance(deps, tenant) }
  }
  await deps.gates.thaw(tenant, trust === 'journal')
  const { isUnlocked, frozen } = await poll(
    () => deps.gates.read(tenant), gate => gate.isUnlocked, COMPARE_TIMEOUT_MS)
  if (!isUnlocked) {
    return {
      tenant,
      state: 'waiting',
      note: `No ledger compared it within ${COMPARE_TIMEOUT_MS / 1_000} seconds; check that ` +
        'ledger runs.',
    }
  }
  if (frozen !== '') return { tenant, state: 'frozen', why: frozen }
  const reconstructed = await deps.gates.reconstructed(tenant)
  return {
    state: 'thawed',
    ...await readBalance(deps, tenant),
    ...reconstructed.length > 0 && {
      note: `The ids of these entries are lost: ${reconstructed.join(', ')}. Do not repeat ` +
        'their top-up or adjustment: its --id would move the money once more.',
    },
  }
}

/** Reads until the value is as wanted, or for so long; returns the last one. */
async function poll<T> (
  read: () => Promise<T>, isWanted: (value: T) => boolean, timeoutMs: number
): Promise<T> {
  const deadlineMs = Date.now() + timeoutMs
  for (;;) {
    const value = await read()
    if (isWanted(value) || Date.now() >= deadlineMs) return value
    await pause(POLL_MS)
  }
}

const showBalance: Task = async (deps, options) => {
  const tenant = await tenantToRead(deps, options)
  return { ...await readBalance(deps, tenant), notShipped: await listOutbox(deps, tenant) }
}

const listOutboxes: Task = async deps => {
  const tenants = await deps.outbox.tenantsWithPending()
  const outboxes = await Promise.all(tenants.map(tenant => listOutbox(deps, tenant)))
  return { notShipped: outboxes.flat().toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at)) }
}

async function listOutbox ({ outbox }: WorkspaceDeps, tenant: string) {
  return (await outbox.pending(tenant)).map(({ seq, type, job, amountMicros, at }) =>
    ({ tenant, seq, type, job, amountMicros, at: new Date(at).toISOString() }))
}

/** All amounts in micros, and the available amount in USD. */
async function readBalance ({ wallet }: WorkspaceDeps, tenant: string): Promise<TaskResult> {
  const balance = await wallet.balance(tenant)
  return { tenant, ...balance, availableUsd: formatUsd(balance.availableMicros) }
}
