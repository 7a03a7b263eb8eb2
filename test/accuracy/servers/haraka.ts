import {
  LIST_DOMAIN, LIST_FULL_MAILBOX, LIST_MAILBOX, PEOPLE, REAL_HOST, startInNamespaces,
  type RealServers,
} from './real.ts'

/** Haraka answers for all of its domains on this address. */
const HOST = REAL_HOST(50)
const GREYLIST_SECONDS = 3

/**
 * Haraka decides about recipients by plugins. This one has people, with the replies of its library
 * of codes; `rcpt_to.in_host_list`, which comes with it, accepts every name of a domain. Its own
 * greylisting leaves out loopback addresses, so this one defers with the same reply.
 */
const PLUGIN = `
const DSN = require('haraka-dsn')
const people = ${JSON.stringify(PEOPLE)}
const replies = {
  'full.box': [DENY, () => DSN.mbox_full('Mailbox full', 552)],
  'nearly.full': [DENYSOFT, () => DSN.mbox_full('Mailbox full')],
  'former.employee': [DENY, () => DSN.mbox_disabled('Mailbox disabled')],
}
const lists = {
  domain: /^${LIST_DOMAIN}$/, mailbox: /^${LIST_MAILBOX}$/, full: /^${LIST_FULL_MAILBOX}$/,
}
const deferred = new Map()
exports.hook_rcpt = (next, connection, [recipient]) => {
  const host = recipient.host.toLowerCase()
  if (lists.domain.test(host)) {
    if (lists.full.test(recipient.user)) return next(DENYSOFT, DSN.mbox_full('Mailbox full'))
    return lists.mailbox.test(recipient.user) ? next(OK) : next(DENY, DSN.no_such_user())
  }
  if (!['haraka.org', 'haraka-grey.org'].includes(host)) return next()
  if (host === 'haraka-grey.org') {
    const key = connection.transaction.mail_from.address + ' ' + recipient.address
    const since = deferred.get(key) ?? Date.now()
    deferred.set(key, since)
    if (Date.now() - since < ${GREYLIST_SECONDS * 1_000}) {
      return next(DENYSOFT, DSN.sec_unauthorized('Greylisted. Please come back later.', '451'))
    }
  }
  const reply = replies[recipient.user]
  if (reply !== undefined) return next(reply[0], reply[1]())
  if (people.includes(recipient.user)) return next(OK)
  next(DENY, DSN.no_such_user())
}
`

/** Starts Haraka from its folder of packages; it ends with this process, however it ends. */
export async function startHaraka (
  { home, port }: { readonly home: string, readonly port: number }
): Promise<RealServers> {
  const files = {
    'config/smtp.ini': `listen=${HOST}:${port}`,
    // It asks for the names of its clients: nobody, as nothing leaves this machine.
    'resolv.conf': `nameserver ${HOST}`,
    'config/me': 'mx.haraka.org',
    'config/plugins': 'rcpt_to.people\nrcpt_to.in_host_list',
    'config/host_list': 'haraka-any.org',
    'config/loglevel': 'WARN',
    'plugins/rcpt_to.people.js': PLUGIN,
  }
  const script = `
exec 3<&0 0</dev/null
mount -t tmpfs tmpfs /mnt
mkdir /mnt/plugins /mnt/queue
cp -r "$2/node_modules/Haraka/config" /mnt
${Object.entries(files).map(([path, text]) =>
  `cat > '/mnt/${path}' <<'END_OF_FILE'\n${text}\nEND_OF_FILE\n`).join('')}
mount --bind /mnt/resolv.conf /etc/resolv.conf
cd /mnt
HARAKA=/mnt "$1" "$2/node_modules/Haraka/haraka.js" &
read line <&3
`
  const command = [script, 'sh', process.execPath, home]
  return await startInNamespaces(command, { addresses: [HOST], port })
}
