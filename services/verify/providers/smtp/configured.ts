import type { VerifyConfig } from '../../config.ts'
import type { Provider } from '../../provider.ts'
import { createSmtpProbeProvider } from '../email.ts'
import type { MailDomains } from '../mail-domains.ts'
import { createConnect, createSessionLimiter } from './connections.ts'
import { createProbe } from './probe.ts'

const SECOND_MS = 1_000

const missing = (setting: string) => new RangeError(`smtp-probe needs ${setting}, which is ` +
  'empty; set it, or remove smtp-probe from PROVIDERS and SECOND_OPINIONS')

/** The provider `smtp-probe` by its settings; throws RangeError if a required one is empty. */
export function configuredSmtpProbe (
  config: VerifyConfig, domains: MailDomains | undefined
): Provider {
  const helo = config.SMTP_HELO
  if (helo === undefined) throw missing('SMTP_HELO')
  if (domains === undefined) throw missing('DNS_SERVERS')
  const probe = createProbe({
    connect: createConnect({
      port: config.SMTP_PORT, timeoutMs: config.SMTP_CONNECT_TIMEOUT_MS, proxy: config.SMTP_PROXY,
    }),
    limiter: createSessionLimiter({
      perOwner: config.SMTP_CONCURRENCY,
      perOwnerAMinute: config.SMTP_PER_MINUTE,
      connections: config.SMTP_CONNECTIONS,
    }),
    caller: { helo, sender: config.SMTP_SENDER ?? '' },
    startTls: config.SMTP_STARTTLS,
    replyTimeoutMs: config.SMTP_REPLY_TIMEOUT_MS,
    rowTimeoutMs: config.SMTP_ROW_TIMEOUT_MS,
    greylistMs: config.SMTP_GREYLIST_SECONDS * SECOND_MS,
    restMs: config.SMTP_REST_SECONDS * SECOND_MS,
    catchAllMs: config.SMTP_CATCH_ALL_SECONDS * SECOND_MS,
  })
  return createSmtpProbeProvider({ domains, probe })
}
