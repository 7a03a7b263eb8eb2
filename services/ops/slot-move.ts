import type { Cluster, Redis } from 'ioredis'
import { partsOf } from '../accounts/tenant.ts'
import { ERASED_IN, ERASED_UNTIL } from '../jobs/redis-keys.ts'
import { LOCKED_TENANTS_CHANNEL, moneyKeys } from '../money/redis-keys.ts'
import { createTenants } from '../money/tenants.ts'
import { createWallet, type Balance } from '../money/wallet.ts'
import { mastersOf, serversOf, slotOf, type RedisServer } from '../platform/cells.ts'
import type { Sleep } from '../platform/retry.ts'
import { CommandFailure, UsageError } from '../platform/run-command.ts'
import {
  masterAt, readNodes, type ClusterNode, type NodeConnections,
} from './cluster-nodes.ts'

export type SlotMoveDeps = {
  readonly redis: Cluster
  readonly nodes: NodeConnections
  /** The address of a node that responds. */
  readonly seed: string
  readonly show: (progress: string) => void
  readonly sleep: Sleep
  /** Milliseconds. */
  readonly now: () => number
}

type Move = { readonly org: string, readonly to: string, readonly timeoutMs: number }

/** A tenant of a moved slot. */
export type MovedTenant = {
  readonly tenant: string
  readonly before: Balance
  readonly after: Balance
  /** Why its wallet is frozen; empty if it is not. */
  readonly frozen: string
  /** False if an amount has changed without a movement, or the amounts do not add up. */
  readonly isIntact: boolean
}

/** The result of a move; `from` is `to` if the slot was there already. */
export type MovedSlot = {
  readonly org: string
  readonly slot: number
  readonly from: string
  readonly to: string
  readonly sharedWith: readonly string[]
  readonly keys: number
  readonly tenants: readonly MovedTenant[]
}

const KEYS_PER_BATCH = 100
const MIGRATE_TIMEOUT_MS = 5_000
const POLL_MS = 100
const POLLS_PER_REQUEST = 10

/**
 * Moves the slot of an organization to another master, key by key, and waits until `ledger` has
 * unlocked its tenants there. The server refuses scripts whose keys are partly moved, so no
 * movement is lost. Every step can be repeated: an interrupted move continues where it was.
 * @throws UsageError when there is no such organization or master, or `ledger` does not respond.
 */
export async function moveSlot (deps: SlotMoveDeps, move: Move): Promise<MovedSlot> {
  const { redis, nodes, seed } = deps
  const { org, to } = move
  const slot = slotOf(moneyKeys(`${org}.live`).wallet)
  const tenants = (await createTenants(redis).all()).toSorted()
    .filter(tenant => slotOf(moneyKeys(tenant).wallet) === slot)
  const orgs = [...new Set(tenants.map(tenant => partsOf(tenant).orgId))]
  if (!orgs.includes(org)) throw new UsageError(`Organization ${org} does not exist.`)
  const target = masterAt(await readNodes(nodes.to(seed)), to)
  // The target knows first that the slot is its own.
  const seen = await readNodes(nodes.to(to))
  const source = seen.find(({ isMaster, hasSlot }) => isMaster && hasSlot(slot))
  if (source === undefined) throw new UsageError(`Slot ${slot} has no server at present.`)
  const used = await usedOf(redis, tenants)
  const isThere = source.id === target.id
  if (!isThere) await untilUnlocked(deps, used, { at: source.address, ...move })
  const before = await balancesOf(redis, used)
  const marked = await completedServers(redis)
  const moving = { slot, source, target, seen }
  const keys = isThere ? 0 : await moveKeys(deps, moving)
  await assign(deps, moving)
  await mastersOf(redis)
  await markServers(redis, marked, to)
  await untilUnlocked(deps, used, { at: to, ...move })
  const after = await balancesOf(redis, used)
  return {
    org,
    slot,
    from: source.address,
    to,
    sharedWith: orgs.filter(one => one !== org),
    keys,
    tenants: await Promise.all(used.map(async (tenant, index) =>
      movedTenant(redis, tenant, [before[index], after[index]]))),
  }
}

/** The tenants that have a wallet. */
async function usedOf (redis: Cluster, tenants: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(tenants.map(tenant => redis.exists(moneyKeys(tenant).wallet)))
  return tenants.filter((_, index) => found[index] === 1)
}

const balancesOf = (redis: Cluster, tenants: readonly string[]) =>
  Promise.all(tenants.map(tenant => createWallet(redis).balance(tenant)))

async function movedTenant (
  redis: Cluster, tenant: string, [before, after]: readonly (Balance | undefined)[]
): Promise<MovedTenant> {
  if (before === undefined || after === undefined) throw new Error(`no balance of ${tenant}`)
  const frozen = await redis.hget(moneyKeys(tenant).wallet, 'frozen') ?? ''
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros, seq } = after
  const addsUp = availableMicros + reservedMicros + chargedMicros === fundedMicros
  const isSame = JSON.stringify(before) === JSON.stringify(after)
  const isIntact = frozen === '' && addsUp && (isSame || seq > before.seq)
  return { tenant, before, after, frozen, isIntact }
}

type Moving = {
  readonly slot: number
  readonly source: ClusterNode
  readonly target: ClusterNode
  readonly seen: readonly ClusterNode[]
}

/** Moves all keys of the slot; returns their number. */
async function moveKeys (
  { nodes, show }: SlotMoveDeps, { slot, source, target }: Moving
): Promise<number> {
  const from = nodes.to(source.address)
  const mine = (await readNodes(from)).find(({ isMyself }) => isMyself)
  const other = mine?.migrating.get(slot)
  if (other !== undefined && other !== target.id) {
    throw new UsageError(`Slot ${slot} is on its way from ${source.address} to the node ` +
      `${other}. Complete that move first.`)
  }
  await nodes.to(target.address).call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', source.id)
  await from.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', target.id)
  let moved = 0
  for (;;) {
    const keys = await from.callBuffer(
      'CLUSTER', 'GETKEYSINSLOT', slot, KEYS_PER_BATCH) as readonly Buffer[]
    if (keys.length === 0) return moved
    await migrate(from, target.address, keys)
    moved += keys.length
    show(`slot ${slot}: ${moved} keys moved`)
  }
}

/** A key that an interrupted step has left on both servers is replaced by that of the source. */
async function migrate (from: Redis, to: string, keys: readonly Buffer[]): Promise<void> {
  const { username, password } = from.options
  const access = password ? username ? ['AUTH2', username, password] : ['AUTH', password] : []
  const at = to.lastIndexOf(':')
  const target = [to.slice(0, at), to.slice(at + 1), '', 0, MIGRATE_TIMEOUT_MS]
  await from.call('MIGRATE', ...target, 'REPLACE', ...access, 'KEYS', ...keys)
}

/** Assigns the slot: at the target first, which owns it from then on. */
async function assign ({ nodes }: SlotMoveDeps, { slot, source, target, seen }: Moving) {
  const others = seen.filter(({ isMaster, isFailed, id }) =>
    isMaster && !isFailed && id !== source.id && id !== target.id)
  for (const { address } of [target, source]) {
    await nodes.to(address).call('CLUSTER', 'SETSLOT', slot, 'NODE', target.id)
  }
  // The others learn it from the target too.
  await Promise.allSettled(others.map(({ address }) =>
    nodes.to(address).call('CLUSTER', 'SETSLOT', slot, 'NODE', target.id)))
}

type Marked = { readonly run: string, readonly until: string | null }

/**
 * The servers, by run, that have all erasures, and up to when. The mark of a server is in one of
 * its slots, which this move may take along.
 */
async function completedServers (redis: Cluster): Promise<readonly Marked[]> {
  const marks = await Promise.all((await serversOf(redis)).map(async ({ run, keyOf }) => {
    const [erasedIn, until] =
      [await redis.get(keyOf(ERASED_IN)), await redis.get(keyOf(ERASED_UNTIL))]
    return erasedIn === run ? [{ run, until }] : []
  }))
  return marks.flat()
}

/**
 * Marks the same servers where they have slots now, and the target, if it is new. The target has
 * all erasures of the slot since the earliest time.
 */
async function markServers (
  redis: Cluster, completed: readonly Marked[], to: string
): Promise<void> {
  const untilMs = Math.min(...completed.map(({ until }) => Number(until ?? 0)))
  const mark = async ({ run, keyOf }: RedisServer, until: string | null) => {
    if (await redis.get(keyOf(ERASED_IN)) === run) return
    if (until !== null) await redis.set(keyOf(ERASED_UNTIL), until)
    await redis.set(keyOf(ERASED_IN), run)
  }
  for (const server of await serversOf(redis)) {
    const known = completed.find(({ run }) => run === server.run)
    if (known !== undefined) await mark(server, known.until)
    // A server that had no slot has lost nothing.
    else if (server.address === to && await hasOneSlot(redis, to) && untilMs > 0) {
      await mark(server, String(untilMs))
    }
  }
}

const hasOneSlot = async (redis: Cluster, address: string) =>
  redis.slots.filter(servers => servers?.[0] === address).length === 1

/**
 * Waits until the tenants are unlocked at a server, and asks `ledger` for it. Before a move, too: a
 * wallet that lost movements must not come to a server for which it was unlocked earlier.
 */
async function untilUnlocked (
  { redis, nodes, show, sleep, now }: SlotMoveDeps, tenants: readonly string[],
  { at, timeoutMs }: { readonly at: string, readonly timeoutMs: number }
): Promise<void> {
  const deadlineMs = now() + timeoutMs
  const server = nodes.to(at)
  for (let poll = 0; ; poll++) {
    const locked = await lockedAt(server, tenants)
    if (locked.length === 0) return
    if (now() >= deadlineMs) {
      throw new CommandFailure(`${locked.join(', ')} at ${at} are locked, and ledger has not ` +
        'compared them with the journal: check that a ledger is running, then run the command ' +
        'again.')
    }
    show(`waiting for ledger to unlock ${locked.length} of ${tenants.length} tenants at ${at}`)
    if (poll % POLLS_PER_REQUEST === 0) {
      for (const tenant of locked) await redis.publish(LOCKED_TENANTS_CHANNEL, tenant)
    }
    await sleep(POLL_MS)
  }
}

/** Those whose wallet is on the server and locked. */
async function lockedAt (server: Redis, tenants: readonly string[]): Promise<readonly string[]> {
  const run = /run_id:(\w+)/.exec(await server.info('server'))?.[1]
  const locked = await Promise.all(tenants.map(async tenant => {
    const found = await server.hget(moneyKeys(tenant).wallet, 'run').catch((error: Error) => {
      if (/^(ASK|MOVED) /.test(error.message)) return run
      throw error
    })
    return found === run ? [] : [tenant]
  }))
  return locked.flat()
}
