import type { Zone } from '../../support/dns-server.ts'
import { seededRandom } from '../inputs.ts'
import { timeJob } from '../jobs.ts'
import type { Setting } from '../setting.ts'
import { median } from '../spread.ts'

export type EmailFigures = {
  readonly rows: number
  readonly domains: number
  /** POST sent to `completed` of a fresh job whose domains are all known. */
  readonly wallMs: number
  readonly rowsPerSecond: number
}

const COMPANIES = 1_000
const JOBS = 3
const PERSONAL = ['gmail.com', 'yahoo.com', 'outlook.com', 'gmx.de', 'proton.me', 'gmial.com']
const ROLES = ['info', 'sales', 'support', 'billing']

const host: Zone = { a: ['93.184.215.14'] }
const takesMail: Zone = { mx: [[10, 'mx1.mail-hosts.net'], [20, 'mx2.mail-hosts.net']] }
const companyOf = (number: number) => `company-${number}.net`
/** One company of fifty has no domain any more. */
const isGone = (number: number) => number % 50 === 0

/** The mail domains of the inputs, for a resolver that knows nothing else. */
export function mailZones (): Readonly<Record<string, Zone>> {
  const companies = Array.from({ length: COMPANIES }, (_, number) => number)
    .filter(number => !isGone(number)).map(companyOf)
  return Object.fromEntries([
    ['mx1.mail-hosts.net', host], ['mx2.mail-hosts.net', host],
    ...[...companies, ...PERSONAL].map(domain => [domain, takesMail]),
  ])
}

/**
 * Addresses as lists of customers have them: 40 % of people at big providers, a typo among those;
 * the rest at 1,000 companies, some of them gone; 5 % are for a role, 3 % are none, 3 % repeat one.
 */
export function mixedEmails (rows: number, from: number): readonly string[] {
  const random = seededRandom(20_261_122 + from)
  const pick = (list: readonly string[]) => list[Math.floor(random() * list.length)] ?? ''
  const inputs: string[] = []
  for (let row = 0; row < rows; row++) {
    const kind = random()
    const domain = random() < 0.4 ? pick(PERSONAL) : companyOf(Math.floor(random() * COMPANIES))
    if (kind < 0.03) inputs.push(`not an address ${from + row}`)
    else if (kind < 0.06 && row > 0) inputs.push(pick(inputs))
    else inputs.push(`${kind < 0.11 ? pick(ROLES) + '+' : 'person.'}${from + row}@${domain}`)
  }
  return inputs
}

/**
 * E-mail addresses through the whole service, DNS answered by a resolver on this machine. The first
 * job asks for every domain, so that the measured ones find them in memory.
 */
export async function measureEmail ({ client, rows, show }: Setting): Promise<EmailFigures> {
  const count = Math.ceil(rows / 2)
  show(`e-mail: ${JOBS} fresh jobs of ${count} addresses, after one that asks for all domains`)
  const times: number[] = []
  for (let job = 0; job <= JOBS; job++) {
    const inputs = mixedEmails(count, job * count)
    const { wallMs } = await timeJob(client, inputs, { service: 'email-validation' })
    if (job > 0) times.push(wallMs)
  }
  const wallMs = median(times)
  const domains = COMPANIES + PERSONAL.length
  return { rows: count, domains, wallMs, rowsPerSecond: count / wallMs * 1_000 }
}
