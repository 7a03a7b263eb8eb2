import { Cluster, type Redis } from 'ioredis'
import { count } from '../client/terminal.ts'
import { moneyKeys } from '../money/redis-keys.ts'
import { createTenants } from '../money/wallet.ts'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import {
  findHome, formatAddress, listMasters, type RedisClient, SLOTS,
} from '../runtime/platform/redis.ts'
import { orIfUnavailable } from '../runtime/platform/errors.ts'
import { tableText, type Cell, type Column, type Paint } from '../runtime/platform/text-table.ts'
import { type AdminCommand, type Context, runAndPrint } from './command-line.ts'
import { withState } from './deps.ts'

const HELP = `
A cell is a server of the state Redis with its replicas: the only server, or a master of a cluster
with the tenants in its slots. A tenant is locked until ledger has compared it with the journal.`

/** Adds `cells`. */
export function addCells (program: AdminCommand, context: Context): void {
  program.command('cells')
    .description('list the servers of the state Redis and their tenants')
    .reads()
    .addHelpText('after', HELP)
    .example()
    .action(runAndPrint(context, async ({ env }, paint) => {
      const cells = await withState(env, listCells)
      return { data: cells, text: cellsText(cells, paint) }
    }))
}

type Replica = { readonly address: string, readonly isOnline: boolean, readonly lagSeconds: number }

/** A server of the state; the fields from `memoryBytes` on are null if it does not respond. */
type StateCell = {
  readonly address: string
  readonly slots: number
  readonly tenants: number
  readonly lockedTenants: number
  readonly frozenTenants: number
  readonly memoryBytes: number | null
  /** The value of `appendfsync`; `off` without an append-only file. */
  readonly persistence: string | null
  readonly run: string | null
  readonly replicas: readonly Replica[] | null
}

/** Reads all servers of the state. */
async function listCells (redis: RedisClient): Promise<readonly StateCell[]> {
  const masters = await listMasters(redis)
  const tenants = Map.groupBy(await createTenants(redis).all(), tenant =>
    findHome(redis, moneyKeys(tenant).wallet))
  return await Promise.all(masters.map(async master => {
    const address = formatAddress(master)
    const tenantsHere = tenants.get(redis instanceof Cluster ? address : '') ?? []
    const slots = redis instanceof Cluster
      ? redis.slots.filter(servers => servers?.[0] === address).length
      : SLOTS
    const server = await readServer(master).catch(orIfUnavailable(undefined))
    const states = server === undefined ? [] : await readTenants(redis, tenantsHere, server.run)
    return {
      address,
      slots,
      tenants: tenantsHere.length,
      lockedTenants: states.filter(({ isLocked }) => isLocked).length,
      frozenTenants: states.filter(({ isFrozen }) => isFrozen).length,
      memoryBytes: server?.memoryBytes ?? null,
      persistence: server?.persistence ?? null,
      run: server?.run ?? null,
      replicas: server?.replicas ?? null,
    }
  }))
}

async function readServer (master: Redis) {
  const info = new Map((await master.info()).split('\r\n')
    .map(line => line.split(/:(.*)/s, 2) as [string, string]))
  // A managed Redis may refuse to show its configuration.
  const [, appendfsync = 'on'] = await master.config('GET', 'appendfsync')
    .catch(() => []) as readonly string[]
  return {
    run: info.get('run_id') ?? '',
    memoryBytes: Number(info.get('used_memory')),
    persistence: info.get('aof_enabled') === '1' ? appendfsync : 'off',
    replicas: [...info].filter(([name]) => /^slave\d+$/.test(name)).map(([, text]) =>
      parseReplica(text)),
  }
}

function parseReplica (text: string): Replica {
  const fields = Object.fromEntries(text.split(',').map(field => field.split('='))) as
    Readonly<Record<string, string>>
  return {
    address: `${fields['ip']}:${fields['port']}`,
    isOnline: fields['state'] === 'online',
    lagSeconds: Number(fields['lag']),
  }
}

const TENANTS_PER_BATCH = 500

/** Whether tenants are locked or frozen. A tenant without a wallet is neither. */
async function readTenants (redis: RedisClient, tenants: readonly string[], run: string) {
  const states: { readonly isLocked: boolean, readonly isFrozen: boolean }[] = []
  for (const batch of splitBatches(tenants, TENANTS_PER_BATCH)) {
    states.push(...await Promise.all(batch.map(async tenant => {
      const [unlockedFor, frozen, seq] =
        await redis.hmget(moneyKeys(tenant).wallet, 'run', 'frozen', 'seq')
      const isUsed = Boolean(unlockedFor ?? seq)
      return { isLocked: isUsed && unlockedFor !== run, isFrozen: Boolean(frozen) }
    })))
  }
  return states
}

const COLUMNS: readonly Column[] = [
  { title: 'cell' }, { title: 'slots', right: true }, { title: 'tenants', right: true },
  { title: 'locked', right: true }, { title: 'frozen', right: true },
  { title: 'memory', right: true }, { title: 'appendfsync' }, { title: 'replicas' },
  { title: 'run' },
]

/** Formats the table of cells. */
function cellsText (cells: readonly StateCell[], paint: Paint): string {
  return tableText(COLUMNS, cells.map(cell => [
    cell.address, count(cell.slots), count(cell.tenants),
    warned(count(cell.lockedTenants), cell.lockedTenants > 0),
    warned(count(cell.frozenTenants), cell.frozenTenants > 0),
    cell.memoryBytes === null
      ? warned('no answer', true)
      : `${(cell.memoryBytes / 1e6).toFixed(1)} MB`,
    warned(cell.persistence ?? '-', cell.persistence !== 'always'),
    replicasText(cell.replicas), cell.run?.slice(0, 8) ?? '-',
  ]), paint)
}

const warned = (text: string, isWrong: boolean): Cell =>
  isWrong ? { text, style: 'red' } : text

function replicasText (replicas: StateCell['replicas']): Cell {
  if (replicas === null) return '-'
  if (replicas.length === 0) return { text: 'none', style: 'yellow' }
  return replicas.map(({ address, isOnline, lagSeconds }) =>
    `${address} ${isOnline ? `${lagSeconds} s behind` : 'offline'}`).join(', ')
}
