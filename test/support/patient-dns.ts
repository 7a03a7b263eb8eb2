import {
  createDns, type DnsOptions, type DnsQueries,
} from '../../services/verify/providers/mail-domains.ts'
import type { DnsServer } from './dns-server.ts'

/** Nobody waits for them long, as nothing ever comes. */
const NEVER_ANSWERED: readonly unknown[] = ['silent', 'garbage']
const BRIEF_MS = 100
/** However slow the machine is, an answer that comes is heard. */
const PATIENT_MS = 60_000

/** A real resolver asked of a server of a test: with patience, but for what it never answers. */
export function createPatientDns (
  server: DnsServer, { concurrency = 16 }: Partial<Pick<DnsOptions, 'concurrency'>> = {}
): DnsQueries {
  const [patient, brief] = [PATIENT_MS, BRIEF_MS].map((timeoutMs) =>
    createDns({ servers: [server.address], timeoutMs, concurrency })) as
    [DnsQueries, DnsQueries]
  const of = (name: string) =>
    NEVER_ANSWERED.includes(server.zones.get(name)?.fault) ? brief : patient
  return {
    mailExchanges: (domain) => of(domain).mailExchanges(domain),
    addresses: (name) => of(name).addresses(name),
    root: () => of('.').root(),
  }
}
