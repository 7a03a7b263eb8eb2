import Type from 'typebox'
import { isProxyAddress } from './connect.ts'

const HOST_NAME =
  /^(?=.{4,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]$/i
const ADDRESS = /^[^\s<>@]{1,64}@[^\s<>@]+$/

const atLeastOne = (count: number, description: string) =>
  Type.Integer({ default: count, minimum: 1, description })

/** What the provider `smtp-probe` needs; without it in `PROVIDERS` or `SECOND_OPINIONS`, unused. */
export const smtpConfig = {
  SMTP_HELO: Type.Optional(Type.Refine(
    Type.String({
      description: 'Name that smtp-probe gives itself to mail servers, the reverse name (PTR) of ' +
        'the address it connects from; smtp-probe does not start without.',
      examples: ['probe.example.com'],
    }), (name) => HOST_NAME.test(name), () => 'must be a full host name')),
  SMTP_SENDER: Type.Optional(Type.Refine(
    Type.String({
      description: 'Sender that smtp-probe names, of a domain with that address in its SPF; the ' +
        'null sender when missing.',
    }), (address) => ADDRESS.test(address), () => 'must be a bare e-mail address')),
  SMTP_PROXY: Type.Optional(Type.Refine(
    Type.String({
      description: 'SOCKS5 proxy of all connections to mail servers, host:port.',
      examples: ['proxy.internal:1080'],
    }), isProxyAddress, () => 'must be host:port')),
  SMTP_STARTTLS: Type.Boolean({
    default: true, description: 'Whether smtp-probe encrypts where a mail server offers it.',
  }),
  SMTP_PORT: Type.Integer({
    default: 25, minimum: 1, maximum: 65_535, description: 'Port of mail servers.',
  }),
  SMTP_ALLOW_PRIVATE: Type.Boolean({
    default: false,
    description: 'Lets mail servers have private and loopback addresses; for tests only.',
  }),
  SMTP_CONNECTIONS: atLeastOne(64, 'Conversations with mail servers under way at a time.'),
  SMTP_CONCURRENCY: atLeastOne(2, 'Of these, with servers of one owner, and about one domain.'),
  SMTP_PER_MINUTE: atLeastOne(60, 'Conversations begun a minute, of one owner, and one domain.'),
  SMTP_CONNECT_TIMEOUT_MS: atLeastOne(3_000, 'Longest a mail server may take to be connected.'),
  SMTP_REPLY_TIMEOUT_MS: atLeastOne(5_000, 'Longest a mail server may take for a reply.'),
  SMTP_ROW_TIMEOUT_MS: atLeastOne(7_000, 'Longest one address is asked a mail server about.'),
  SMTP_GREYLIST_SECONDS: atLeastOne(300, 'Pause before an address is asked for again.'),
  SMTP_REST_SECONDS: atLeastOne(
    300, 'How long a mail server that blocks us or does not answer is left alone.'),
  SMTP_CATCH_ALL_SECONDS: atLeastOne(
    3_600, 'How long it is remembered whether a domain takes mail for any name.'),
}
