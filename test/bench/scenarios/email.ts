import type { Zone } from '../../support/mail/dns-server.ts'
import type { BenchContext } from '../run.ts'
import { timeJob, median } from '../jobs.ts'
import { seededRandom } from '../../support/random.ts'

const COMPANIES = 1_000
const JOBS = 3
const PROVIDERS = ['gmail.com', 'yahoo.com', 'outlook.com', 'gmx.de', 'proton.me', 'gmial.com']
const ROLES = ['info', 'sales', 'support', 'billing']

const mailServer: Zone = { a: ['93.184.215.14'] }
const mailDomain: Zone = { mx: [[10, 'mx1.mail-hosts.net'], [20, 'mx2.mail-hosts.net']] }
const companyDomain = (number: number) => `company-${number}.net`
/** One company domain in fifty does not exist. */
const isMissing = (number: number) => number % 50 === 0

/** The zones of all mail domains of the inputs, for a resolver that knows no other names. */
export function mailZones (): Readonly<Record<string, Zone>> {
  const companies = Array.from({ length: COMPANIES }, (_, number) => number)
    .filter(number => !isMissing(number)).map(companyDomain)
  return Object.fromEntries([
    ['mx1.mail-hosts.net', mailServer], ['mx2.mail-hosts.net', mailServer],
    ...[...companies, ...PROVIDERS].map(domain => [domain, mailDomain]),
  ])
}

/**
 * Generates e-mail addresses like those in lists of customers: 40 % at large providers, including a
 * misspelled one; the rest at 1,000 companies, including missing domains; 5 % role addresses, 3 %
 * not addresses, 3 % duplicates.
 */
function mixedEmails (rows: number, firstSerial: number): readonly string[] {
  const random = seededRandom(20_261_122 + firstSerial)
  const pick = (list: readonly string[]) => list[Math.floor(random() * list.length)] ?? ''
  const inputs: string[] = []
  for (let row = 0; row < rows; row++) {
    const serial = firstSerial + row
    const kind = random()
    const domain = random() < 0.4
      ? pick(PROVIDERS)
      : companyDomain(Math.floor(random() * COMPANIES))
    if (kind < 0.03) inputs.push(`not an address ${serial}`)
    else if (kind < 0.06 && row > 0) inputs.push(pick(inputs))
    else inputs.push(`${kind < 0.11 ? pick(ROLES) + '+' : 'person.'}${serial}@${domain}`)
  }
  return inputs
}

/**
 * Runs jobs of e-mail addresses through the whole service, with a DNS resolver on this machine. The
 * first job warms up: it looks up every domain, so the measured jobs find all in memory.
 */
export async function measureEmail ({ client, rows, log }: BenchContext) {
  const count = Math.ceil(rows / 2)
  log(`e-mail: ${JOBS} fresh jobs of ${count} addresses, after one that looks up all domains`)
  const times: number[] = []
  for (let job = 0; job <= JOBS; job++) {
    const inputs = mixedEmails(count, job * count)
    const { wallMs } = await timeJob(client, inputs, { service: 'email-validation' })
    if (job > 0) times.push(wallMs)
  }
  const wallMs = median(times)
  const domains = COMPANIES + PROVIDERS.length
  return { rows: count, domains, wallMs, rowsPerSecond: count / wallMs * 1_000 }
}
