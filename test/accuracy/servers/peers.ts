import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Say } from '../../../deploy/local/parts.ts'
import { buildPeer, peerVersion } from './install.ts'
import {
  GREYLIST_SECONDS, HELO, MAILBOXES, MAX_CHECKS, withMailServers, type Mailbox,
} from './mailboxes.ts'

/** The resolver as /etc/resolv.conf can name it: by address alone, so it has the usual port. */
const PEER_RESOLVER = { host: '127.77.2.53', port: 53 }

/**
 * Settings of check-if-email-exists. Those of its documentation: a timeout of 45 seconds, two
 * connections to get past greylisting, a sender in the domain of the HELO name (it cannot send the
 * null sender). Its headless browser for Yahoo and Outlook.com would need their web sites, so that
 * it asks these by SMTP, the other strategy that it has.
 */
const SETTINGS = {
  PEER_HELO: HELO,
  PEER_SENDER: `probe@${HELO.slice(HELO.indexOf('.') + 1)}`,
  PEER_TIMEOUT_SECONDS: '45',
  PEER_CONNECTIONS: '2',
  PEER_CONCURRENCY: '32',
}

/**
 * Its words as statuses. They sum up its details as we do: `risky` is a catch-all, a disposable
 * domain, a role or a full mailbox, and a disabled mailbox is `invalid`.
 */
const STATUSES: Readonly<Record<string, string>> = {
  safe: 'valid', invalid: 'invalid', risky: 'risky', unknown: 'unknown',
}

/** The product and version that is measured. */
export const peerName = (): string => `check-if-email-exists ${peerVersion()}`

/**
 * Asks check-if-email-exists for every address of the suite, at servers that were not asked before,
 * as often as smtp-probe asks: rows that are `unknown` again after the pause of greylisting.
 * Returns statuses by address.
 */
export async function askPeer (say: Say): Promise<ReadonlyMap<string, string>> {
  return await withMailServers(say, PEER_RESOLVER, async ({ port }) => {
    const program = await buildPeer(say)
    const statuses = new Map<string, string>()
    let addresses = MAILBOXES.map(({ address }) => address)
    for (let check = 0; check < MAX_CHECKS && addresses.length > 0; check++) {
      if (check > 0) await sleep(GREYLIST_SECONDS * 1_000)
      for (const [address, status] of await runPeer(program, port, addresses)) {
        statuses.set(address, status)
      }
      addresses = addresses.filter(address => statuses.get(address) === 'unknown')
    }
    return statuses
  })
}

/** It takes its resolver from the system, so it runs with other files there. */
const ENTER = `
set -e
mount -t tmpfs tmpfs /mnt
echo 'nameserver ${PEER_RESOLVER.host}' > /mnt/resolv.conf
echo 'hosts: files dns' > /mnt/nsswitch.conf
for file in resolv.conf nsswitch.conf; do mount --bind /mnt/$file /etc/$file; done
exec "$1"
`

/** Its status for each address, asked once, at servers on this port. */
async function runPeer (
  program: string, port: number, addresses: readonly string[]
): Promise<readonly (readonly [address: string, status: string])[]> {
  const child = spawn('unshare', ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', ENTER,
    'sh', program], { env: { ...process.env, ...SETTINGS, PEER_PORT: String(port) } })
  child.stdin.end(addresses.join('\n'))
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)])
  const results = output.trim().split('\n').filter(line => line !== '').map(line => {
    const { input, is_reachable: word } = JSON.parse(line) as Record<string, string>
    const status = STATUSES[word ?? '']
    if (input === undefined || status === undefined) {
      throw new Error(`check-if-email-exists said ${line}, which has no status that is known here`)
    }
    return [input, status] as const
  })
  if (results.length !== addresses.length) {
    throw new Error(`check-if-email-exists answered ${results.length} of ${addresses.length} ` +
      `addresses:\n${errors}`)
  }
  return results
}

/** How many verdicts about addresses were right, and how the others misled. */
export type ProductCounts = {
  readonly total: number
  readonly right: number
  readonly falseValid: number
  readonly falseInvalid: number
  /** `risky` instead of another status. */
  readonly falseRisky: number
  /** `unknown` although the truth can be known. */
  readonly unknown: number
}

/** Counts of a product for each kind of server. */
export type ProductFigures = Readonly<Record<string, ProductCounts>>

/** Judges the statuses of a product by address. Those that it does not name are `unknown`. */
export function judgeProduct (statuses: ReadonlyMap<string, string>): ProductFigures {
  return Object.fromEntries([...Map.groupBy(MAILBOXES, ({ part }) => part)].map(([part, boxes]) => {
    const wrong = boxes.flatMap(box => {
      const status = statuses.get(box.address) ?? 'unknown'
      return trueStatuses(box).includes(status) ? [] : [status]
    })
    const count = (status: string) => wrong.filter(it => it === status).length
    return [part, {
      total: boxes.length,
      right: boxes.length - wrong.length,
      falseValid: count('valid'),
      falseInvalid: count('invalid'),
      falseRisky: count('risky'),
      unknown: count('unknown'),
    }]
  }))
}

/** Addresses whose status is not true, in words. */
export function misjudged (statuses: ReadonlyMap<string, string>): readonly string[] {
  return MAILBOXES.flatMap(box => {
    const status = statuses.get(box.address) ?? 'unknown'
    const expected = trueStatuses(box)
    return expected.includes(status)
      ? []
      : [`${box.address}: ${status} instead of ${expected.join(' or ')}`]
  })
}

/**
 * Statuses that are true of an address. A comparison must not punish conventions of this product,
 * so some have two:
 * - a role address where no mailbox can be known: `risky` for its name, or `unknown`;
 * - a host that accepts every name: `unknown`, or `risky` as a catch-all;
 * - what `alsoTrue` of the domain says, with its reason.
 */
function trueStatuses ({ address, status, reason, alsoTrue }: Mailbox): readonly string[] {
  const also = alsoTrue === undefined ? [] : [alsoTrue]
  if (reason === 'not_answered_truthfully') also.push('risky')
  if (reason === 'role_address' && knowsNothing(address)) also.push('unknown')
  return [status, ...also]
}

function knowsNothing (address: string): boolean {
  const domain = address.slice(address.lastIndexOf('@'))
  return MAILBOXES.every(box => !box.address.endsWith(domain) ||
    box.status === 'unknown' || box.reason === 'role_address')
}
