import {
  createDns, type DnsOptions, type DnsQueries,
} from '../../../services/verify/providers/mail-domains.ts'
import type { DnsServer } from './dns-server.ts'

/** Queries for them time out early, as no answer ever comes. */
const NEVER_ANSWERED: readonly unknown[] = ['silent', 'garbage']
const BRIEF_MS = 100
/** Long enough for every answer, however slow the machine is. */
const PATIENT_MS = 60_000

/** A real resolver of a test server: with a long timeout, except for what it never answers. */
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
    texts: (name) => of(name).texts(name),
  }
}
