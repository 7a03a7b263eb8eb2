import { Cluster } from 'ioredis'
import type { Command } from 'commander'
import { counted, createProgressLine, money } from '../client/terminal.ts'
import { addressOf, mastersOf } from '../platform/cells.ts'
import { sleep } from '../platform/retry.ts'
import { UsageError } from '../platform/run-command.ts'
import { callOf, parsePositive, type CommandCall, type Screen } from './command-line.ts'
import { createNodeConnections } from './cluster-nodes.ts'
import { withState } from './connections.ts'
import { moveSlot, type MovedSlot, type MovedTenant } from './slot-move.ts'

type Options = { readonly org: string, readonly to: string, readonly timeout: string }

const HELP = `
Moves the slot of an organization to another master of the cluster of the state Redis, with all
organizations that share the slot. Requests meanwhile wait or get 503 with Retry-After. ledger
unlocks the tenants once it has compared them with the journal; the command waits for that, and
compares the balances before and after. Exit code 1 if a balance is not what it was.

If the command is interrupted, run it again with the same options: it continues.

Example:
  npm run ops -- cells move --org org_01jd3v8zj7m5n2k4q6r8s0t1w3 --to redis-3.example.com:6379`

/** Adds `move` to `cells`. */
export function addCellsMove (cells: Command, screen: Screen): void {
  cells.command('move').description('move an organization to another server of the state Redis')
    .requiredOption('--org <id>', 'the organization')
    .requiredOption('--to <host:port>', 'address of a master, as "cells" shows it')
    .option('--timeout <seconds>', 'maximum time to wait for ledger', '60')
    .addHelpText('after', HELP)
    .action(async (_options: object, command: Command) => {
      const call = callOf<Options>(command)
      const moved = await move(call, screen)
      screen.print(call.json ? JSON.stringify(moved) : movedText(moved))
      if (!isIntact(moved)) process.exitCode = 1
    })
}

async function move (
  { env, json, options }: CommandCall<Options>, { errors }: Screen
): Promise<MovedSlot> {
  const timeoutMs = parsePositive('--timeout', options.timeout) * 1_000
  const line = createProgressLine<string>(errors, { textOf: text => text })
  try {
    return await withState(env, async redis => {
      if (!(redis instanceof Cluster)) {
        throw new UsageError('REDIS_STATE_URL is one Redis and no cluster, so there is no other ' +
          'server to move to.')
      }
      const [known] = await mastersOf(redis)
      if (known === undefined) throw new UsageError('No master of the cluster responds.')
      const nodes = createNodeConnections(known)
      try {
        return await moveSlot({
          redis,
          nodes,
          seed: addressOf(known),
          show: text => { if (!json) line.show(text) },
          sleep,
          now: () => performance.now(),
        }, { org: options.org, to: options.to, timeoutMs })
      } finally {
        nodes.close()
      }
    })
  } finally {
    line.end()
  }
}

const isIntact = ({ tenants }: MovedSlot) => tenants.every(({ isIntact }) => isIntact)

/** Formats the result of a move. */
export function movedText (moved: MovedSlot): string {
  const { org, slot, from, to, sharedWith, keys, tenants } = moved
  const shared = sharedWith.length === 0
    ? 'No other organization shares it.'
    : `It also has ${sharedWith.join(', ')}.`
  return [
    from === to
      ? `Slot ${slot} of ${org} is at ${to}. ${shared}`
      : `Slot ${slot} of ${org} moved from ${from} to ${to}, ${counted(keys, 'key')}. ${shared}`,
    ...tenants.map(tenantText),
    isIntact(moved)
      ? 'All balances are those of before, and ledger has compared them with the journal.'
      : 'A balance differs, or a tenant is frozen: see TenantsFrozen in the runbook.',
  ].join('\n')
}

function tenantText ({ tenant, before, after, frozen, isIntact }: MovedTenant): string {
  const movements = after.seq - before.seq
  const during = movements === 0 ? '' : `, ${counted(movements, 'movement')} meanwhile`
  const state = frozen === '' ? isIntact ? 'ok' : 'DIFFERS' : `frozen: ${frozen}`
  return `${tenant}: available ${money(before.availableMicros)} -> ` +
    `${money(after.availableMicros)}, reserved ${money(before.reservedMicros)} -> ` +
    `${money(after.reservedMicros)}, charged ${money(before.chargedMicros)} -> ` +
    `${money(after.chargedMicros)}${during}: ${state}`
}
