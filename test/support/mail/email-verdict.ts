import {
  createEmailDomainProvider, createSmtpProbeProvider,
} from '../../../services/verify/providers/email.ts'
import type { MailDomain } from '../../../services/verify/providers/mail-domains.ts'
import type { Probed } from '../../../services/verify/mailboxes/conversation.ts'
import { request } from './smtp-probe.ts'

/** What DNS and a mail server say of an address; nothing if they are not asked. */
export type EmailFindings = {
  readonly mail?: MailDomain | undefined
  readonly probed?: Probed | undefined
}

/** The verdict of an address by what is found of it. */
export async function emailVerdict (address: string, { mail, probed }: EmailFindings = {}) {
  const domains = mail === undefined
    ? undefined
    : {
        isAvailable: async () => true,
        known: () => mail,
        find: async () => mail,
        hosts: async () => [],
        findPolicies: async () => {},
        facts: () => ({}),
      }
  const provider = domains === undefined || probed === undefined
    ? createEmailDomainProvider({ domains })
    : createSmtpProbeProvider({
      domains, hosts: { ask: async () => probed }, firstTimeoutMs: 1_000, laterTimeoutMs: 1_000,
    })
  const [answer] = await provider.check(...request([address]))
  return answer!.verdict
}
