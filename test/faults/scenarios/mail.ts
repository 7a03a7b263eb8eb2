import { setTimeout as sleep } from 'node:timers/promises'
import { policyOf } from '../../../services/verify/mailboxes/policies.ts'
import type { Zone } from '../../support/mail/dns-server.ts'
import type { Fault, Injected, Preparation, Scene } from '../fault.ts'
import { judgeVerdicts, LARGE, MailHosts, STRANGER } from '../mail-hosts.ts'
import { MovedClock } from '../moved-clock.ts'
import { openStack } from '../stack.ts'

/** The mail hosts of the environment under test; a scenario runs alone. */
let hosts: MailHosts | undefined

const EGRESSES = { a: '127.2.0.1', b: '127.2.0.2' }
/** Of each owner, which has no policy of its own, from each egress. */
const { sessions: SESSIONS, sessionsAMinute: SESSIONS_A_MINUTE, recipientsAMinute } =
  policyOf('example0.com', LARGE, { sessions: 2, sessionsAMinute: 60, ratePercent: 100 })

async function prepareHosts (): Promise<Preparation> {
  const started = await MailHosts.start()
  hosts = started
  return {
    close: () => started.stop(),
    env: {
      ...started.env,
      SMTP_EGRESS: JSON.stringify(Object.entries(EGRESSES).map(([name, address]) =>
        ({ name, address, helo: `${name}.verify.org` }))),
      SMTP_CONCURRENCY: String(SESSIONS),
      SMTP_PER_MINUTE: String(SESSIONS_A_MINUTE),
      DNS_CACHE_SECONDS: '1',
      DNS_NEGATIVE_CACHE_SECONDS: '1',
      RETRY_DEADLINE_MS: '120000',
    },
  }
}

/**
 * Ends the load, and says what no check of mailboxes may do. A clock that is set ahead grants each
 * bucket, a sixth of its rate, and all sessions once more, so many times in a minute.
 */
async function judge (
  scene: Scene, used: MailHosts, setAhead = 0
): Promise<Pick<Injected, 'breaches' | 'note'>> {
  await scene.load.stop()
  const { right, unknown, false: wrong } = await judgeVerdicts(scene.log)
  const peaks = used.peaks()
  const breaches = [
    ...wrong.slice(0, 5),
    ...unknown === 0 ? [] : [`${unknown} rows are unknown, ${right} are right`],
    ...used.forbidden.slice(0, 5).map(command => `a check sent ${command}`),
    ...([
      ['sessions', SESSIONS * (1 + setAhead)],
      ['sessionsAMinute', SESSIONS_A_MINUTE * (1 + setAhead / 6)],
      ['recipientsAMinute', recipientsAMinute.most * (1 + setAhead / 6)],
    ] as const).filter(([name, most]) => peaks[name] > most)
      .map(([name, most]) => `${peaks[name]} ${name} of an owner from an egress, at most ${most}`),
  ]
  return {
    breaches,
    note: `${right} right verdicts; of an owner from an egress at most ${peaks.sessions} ` +
      `sessions at once, ${peaks.sessionsAMinute} new ones and ${peaks.recipientsAMinute} ` +
      'recipients a minute',
  }
}

const EMAILS = { emailShare: 1, bulkShare: 0, webhookShare: 0, clients: 2, smallRows: 30 } as const
const MOST = 10

const scaled: Fault = {
  name: 'mail-scaled',
  kind: 'process',
  about: `verify is scaled from 1 to ${MOST} processes and back while it checks mailboxes: no ` +
    'owner of mail servers is asked more than from one',
  quick: false,
  load: EMAILS,
  prepare: prepareHosts,
  inject: async scene => {
    const { environment: { services }, load, say } = scene
    const used = hosts as MailHosts
    for (const verify of [MOST, 1]) {
      await load.untilEnded(5)
      await services.setScale({ verify })
      await services.untilReady()
      say(`${verify} processes: ${JSON.stringify(used.peaks())}`)
    }
    await load.untilEnded(5)
    return { injected: 2, ...await judge(scene, used) }
  },
}

const blocked: Fault = {
  name: 'mail-egress-blocked',
  kind: 'outside',
  about: 'a large owner of mail servers blocks one of two egresses: it rests there alone, and ' +
    'its rows are asked from the other',
  quick: false,
  load: EMAILS,
  prepare: prepareHosts,
  inject: async scene => {
    const { load, say } = scene
    const used = hosts as MailHosts
    await load.untilEnded(5)
    used.behave(({ exchange, egress }, command) =>
      exchange === LARGE && egress === EGRESSES.a && /^(RCPT|$)/.test(command)
        ? '554 5.7.1 Service unavailable; client host blocked using our list'
        : undefined)
    const before = used.countOf({ exchange: LARGE, egress: EGRESSES.a })
    await load.untilEnded(10, 120_000)
    const after = used.countOf({ exchange: LARGE, egress: EGRESSES.a })
    const tries = after.sessions - before.sessions
    say(`${tries} sessions from the blocked egress while it was blocked`)
    used.behave()
    const { breaches = [], ...judged } = await judge(scene, used)
    return {
      injected: 1,
      ...judged,
      breaches: [
        ...breaches,
        // Those that were open, and the one that is blocked in each process.
        ...tries > SESSIONS ? [`${tries} sessions from an egress that is blocked`] : [],
      ],
    }
  },
}

const LYING_MS = 60_000

/** What the resolver says of a zone instead; undefined if it denies that the name exists. */
const LIES: Readonly<Record<string, (zone: Zone) => Zone | undefined>> = {
  fails: () => ({ fault: 'SERVFAIL' }),
  'knows no name': () => undefined,
  'is silent': () => ({ fault: 'silent' }),
  'answers garbage': () => ({ fault: 'garbage' }),
  refuses: () => ({ fault: 'REFUSED' }),
  'names servers of somebody else': zone =>
    zone.mx === undefined ? zone : { mx: [[10, STRANGER]] },
}

const lying: Fault = {
  name: 'mail-resolver-lies',
  kind: 'outside',
  about: 'the resolver lies for a minute: it fails, denies every name, is silent, answers ' +
    'garbage, and names servers of somebody else: no verdict is false',
  quick: false,
  load: EMAILS,
  prepare: prepareHosts,
  inject: async scene => {
    const { load, say } = scene
    const used = hosts as MailHosts
    const { dns } = used
    await load.untilEnded(5)
    const truth = new Map(dns.zones)
    used.behave(({ exchange }, command) => exchange === STRANGER && command.startsWith('RCPT')
      ? '550 5.7.1 Relay access denied'
      : undefined)
    for (const [what, lie] of Object.entries(LIES)) {
      dns.zones.clear()
      for (const [name, zone] of truth) {
        const untrue = lie(zone)
        if (untrue !== undefined) dns.zones.set(name, untrue)
      }
      say(`the resolver ${what}`)
      await sleep(LYING_MS / Object.keys(LIES).length)
    }
    for (const [name, zone] of truth) dns.zones.set(name, zone)
    await load.untilEnded(5, 120_000)
    return { injected: Object.keys(LIES).length, ...await judge(scene, used) }
  },
}

/** Of the Redis with the memory of mail servers. */
let clock: MovedClock | undefined

/** The large host says that each egress is too fast; waits until it has. */
async function untilResting (used: MailHosts): Promise<readonly string[]> {
  const resting = new Set<string>()
  used.behave(({ exchange, egress }, command) => {
    if (exchange !== LARGE || !command.startsWith('RCPT')) return undefined
    resting.add(egress)
    return '421 4.7.28 unusual rate of mail from your address, try again in 20 seconds'
  })
  const all = Object.keys(EGRESSES).length
  for (const giveUpAt = Date.now() + 60_000; resting.size < all && Date.now() < giveUpAt;) {
    await sleep(50)
  }
  used.behave()
  if (resting.size === all) return []
  return [`${LARGE} was asked from ${resting.size} of ${all} egresses in a minute`]
}

const jumping: Fault = {
  name: 'mail-clock-jumps',
  kind: 'clock',
  about: 'the clock of the limits of mail servers jumps an hour ahead, back, five minutes back ' +
    'and ahead, while hosts rest and a process is killed in its sessions: no host is held or ' +
    'asked for longer, and no row is lost',
  quick: false,
  load: { ...EMAILS, clients: 3, smallRows: 100 },
  missing: async () => await MovedClock.create().then(() => undefined, (error: Error) =>
    `the clock of Redis cannot be moved without a C compiler: ${error.message}`),
  stack: async () => {
    clock = await MovedClock.create()
    return await openStack({ envOfParts: { 'redis-cache': clock.env } })
  },
  prepare: async () => {
    const { env, ...prepared } = await prepareHosts()
    // A session that was killed has its lease for 50 s.
    return { ...prepared, scale: { verify: 2 }, env: { ...env, SMTP_SESSION_TIMEOUT_MS: '20000' } }
  },
  inject: async scene => {
    const { environment: { services }, load, say } = scene
    const used = hosts as MailHosts
    const jumpTo = async (minutes: number, ended: number) => {
      clock?.set(60 * minutes)
      say(`the clock is off by ${minutes} minutes`)
      if (await load.untilEnded(ended, 180_000)) return []
      return [`fewer than ${ended} jobs have ended in 3 minutes with a clock off by ${minutes}`]
    }
    await load.untilEnded(3, 120_000)
    const held = [...await jumpTo(60, 3), ...await untilResting(used)]
    services.kill('verify-1', 'SIGKILL')
    held.push(...await jumpTo(0, 6), ...await untilResting(used))
    services.kill('verify-2', 'SIGKILL')
    held.push(...await jumpTo(-5, 6), ...await jumpTo(0, 3))
    const { breaches = [], ...judged } = await judge(scene, used, 1)
    return { injected: 4, ...judged, breaches: [...breaches, ...held] }
  },
}

/** What goes wrong around checks of mailboxes. */
export const mail: readonly Fault[] = [scaled, blocked, lying, jumping]
