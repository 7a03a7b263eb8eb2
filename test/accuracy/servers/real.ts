import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** Unpacked mail servers and the port that all of them use, each on its address of 127.0.0.0/8. */
export type RealServersOptions = { readonly home: string, readonly port: number }

/** The address of a server by its last number. */
export const REAL_HOST = (last: number) => `127.77.0.${last}`

const USERS = ['root', 'daemon', 'postfix', 'Debian-exim', 'opensmtpd', 'opensmtpq', 'postgrey',
  'dovecot', 'dovenull', 'vmail', 'nobody']
const VMAIL = USERS.indexOf('vmail')
const GROUPS = [...USERS, 'postdrop', 'nogroup', 'mail']

/** People who have mailboxes at every server, as far as it does not say otherwise. */
export const PEOPLE = ['ada.lovelace', 'grace.hopper', 'alan.turing', 'info'] as const

/**
 * Lists of any size have domains of their own at servers here, with mailboxes whose names say
 * whether they exist (`y`) or are full (`f`). Extended regular expressions of POSIX.
 */
export const LIST_DOMAIN = 'firm-[0-9]+-[0-9]+[.]net'
export const LIST_MAILBOX = 'person[.][yf][0-9]+'
export const LIST_FULL_MAILBOX = 'person[.]f[0-9]+'
/** Greylisting at these domains; its reply says how long. */
const LIST_GREYLIST_SECONDS = 10

const mailboxes = (domain: string, names: readonly string[] = PEOPLE) =>
  names.map(name => `${name}@${domain} there`).join('\n')

/** What each Postfix server does besides having mailboxes, by the last number of its address. */
const POSTFIX: Readonly<Record<number, readonly string[]>> = {
  10: [],
  12: ['smtpd_recipient_restrictions = reject_unauth_destination, check_policy_service ' +
    'inet:127.77.0.99:10023'],
  13: ['smtpd_recipient_restrictions = reject_unauth_destination, check_recipient_access ' +
    'texthash:/etc/postfix/quota'],
  14: [],
  15: ['smtpd_recipient_limit = 1'],
  16: ['smtputf8_enable = no'],
  17: ['smtpd_recipient_restrictions = check_client_access static:{554 5.7.1 Service ' +
    'unavailable; Client host blocked using zen.spamhaus.org}'],
  18: ['smtpd_delay_reject = no', 'smtpd_client_restrictions = check_client_access ' +
    'static:{554 5.7.1 Access denied for your address}'],
  19: ['unknown_virtual_mailbox_reject_code = 450'],
  20: ['smtpd_tls_security_level = encrypt'],
  21: ['smtpd_recipient_restrictions = check_sender_access inline:{ {<> = 550 5.7.1 Sender ' +
    'address rejected: no bounces accepted} }'],
  22: ['smtpd_recipient_restrictions = reject_unauth_destination, reject_unverified_recipient'],
  23: ['smtpd_recipient_restrictions = reject_unauth_destination, sleep 9'],
  24: ['smtpd_recipient_restrictions = reject_unauth_destination, check_recipient_access ' +
    'texthash:/etc/postfix/closed'],
  25: ['smtpd_recipient_restrictions = defer'],
  26: ['smtpd_recipient_restrictions = reject_unauth_destination, check_recipient_access ' +
    'regexp:/etc/postfix/list-full'],
  27: ['smtpd_recipient_restrictions = reject_unauth_destination, check_policy_service ' +
    'inet:127.77.0.99:10024, check_recipient_access regexp:/etc/postfix/list-full'],
}

const masterLine = (port: number) => ([last, options]: readonly [string, readonly string[]]) =>
  `${REAL_HOST(Number(last))}:${port} inet n - n - - smtpd\n` +
  options.map(option => `  -o { ${option} }\n`).join('')

type Files = Readonly<Record<string, string>>

/** The files of the servers, by path. */
function filesOf (port: number): Files {
  return {
    '/etc/passwd': USERS.map((name, id) => `${name}:x:${id}:${id}::/:/bin/sh`).join('\n'),
    '/etc/group': GROUPS.map((name, id) => `${name}:x:${id}:`).join('\n'),
    '/etc/hosts': '127.0.0.1 localhost',
    '/etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files\nservices: files',
    '/etc/mailname': 'mx.servers.org',
    '/etc/exim.conf': eximConfig(port),
    ...Object.fromEntries(EXIM_DOMAINS.map(name => [`/etc/exim/${name}`, PEOPLE.join('\n')])),
    '/etc/exim/closed': 'former.employee\nsuspended.user',
    '/etc/smtpd.conf': `
table people { ${PEOPLE.map(name => `"${name}@opensmtpd.org"`).join(', ')} }
table everyone { "@opensmtpd-any.org" = vmail }
table all { "@" = vmail }
pki server cert "/etc/ssl/server.pem"
pki server key "/etc/ssl/server.key"
listen on ${REAL_HOST(40)} port ${port} hostname mx.opensmtpd.org tls pki server
listen on ${REAL_HOST(41)} port ${port} hostname mx.opensmtpd-any.org
action "people" mda "/bin/true" virtual <all>
action "everyone" mda "/bin/true" virtual <everyone>
match from any for domain "opensmtpd.org" rcpt-to <people> action "people"
match from any for domain "opensmtpd-any.org" action "everyone"
match from any for domain regex "^${LIST_DOMAIN}$" rcpt-to regex "^${LIST_MAILBOX}@" action "people"
`,
    ...postfixFiles(port),
    ...dovecotFiles(),
  }
}

function postfixFiles (port: number): Files {
  return {
    '/etc/postfix/main.cf': `
compatibility_level = 3.6
myhostname = mx.postfix-servers.org
maillog_file = /var/log/postfix.log
mynetworks = 192.0.2.1/32
mydestination =
inet_protocols = ipv4
virtual_mailbox_domains = texthash:/etc/postfix/domains, regexp:/etc/postfix/list-domains
virtual_mailbox_maps = texthash:/etc/postfix/mailboxes, regexp:/etc/postfix/list-mailboxes
relay_domains = postfix-dovecot.org postfix-relay.org
transport_maps = texthash:/etc/postfix/transport
relay_transport = lmtp:unix:private/dovecot
relay_recipient_maps =
address_verify_poll_delay = 1s
address_verify_map =
unverified_recipient_reject_code = 550
smtpd_tls_security_level = may
smtpd_tls_cert_file = /etc/ssl/server.pem
smtpd_tls_key_file = /etc/ssl/server.key
smtpd_client_connection_count_limit = 0
smtpd_peername_lookup = no
`,
    '/etc/postfix/domains': POSTFIX_DOMAINS.map(name => `${name} ours`).join('\n'),
    '/etc/postfix/mailboxes': [
      ...POSTFIX_DOMAINS.map(name => mailboxes(name)),
      mailboxes('postfix-quota.org', ['full', 'nearly.full', 'big.full']),
      mailboxes('postfix-closed.org', ['former.employee', 'suspended.user']),
      '@postfix-any.org everybody',
      mailboxes('postfix-utf8.org', ['пётр', 'dörte']),
    ].join('\n'),
    '/etc/postfix/list-domains': `/^${LIST_DOMAIN}$/ ours`,
    '/etc/postfix/list-mailboxes': `/^${LIST_MAILBOX}@${LIST_DOMAIN}$/ there`,
    '/etc/postfix/list-full':
      `/^${LIST_FULL_MAILBOX}@${LIST_DOMAIN}$/ 452 4.2.2 Mailbox full`,
    '/etc/postfix/transport': `postfix-relay.org smtp:[${REAL_HOST(30)}]:${port}`,
    '/etc/postfix/quota': [
      'full@postfix-quota.org 552 5.2.2 The mailbox is over its quota',
      'nearly.full@postfix-quota.org 452 4.2.2 Mailbox full',
      'big.full@postfix-quota.org 552 5.2.2 Quota exceeded (mailbox for user is full)',
    ].join('\n'),
    '/etc/postfix/closed': [
      'former.employee@postfix-closed.org 550 5.2.1 Mailbox disabled',
      'suspended.user@postfix-closed.org 550 5.1.6 Recipient no longer on server',
    ].join('\n'),
    '/etc/postfix/master.cf': postfixServices(port),
  }
}

function postfixServices (port: number): string {
  return `${Object.entries(POSTFIX).map(masterLine(port)).join('')}
${REAL_HOST(9)}:${port} inet n - n - 1 postscreen
smtpd pass - - n - - smtpd
dnsblog unix - - n - 0 dnsblog
tlsproxy unix - - n - 0 tlsproxy
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
lmtp unix - - n - - lmtp
virtual unix - n n - - virtual
error unix - - n - - error
retry unix - - n - - error
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
`
}

const MESSAGE = `Subject: full\n\n${'x'.repeat(2_000)}`

function dovecotFiles (): Files {
  const user = `{PLAIN}secret:${VMAIL}:${VMAIL}::/var/mail`
  return {
    '/etc/dovecot.conf': `
protocols = lmtp
base_dir = /run/dovecot
state_dir = /run/dovecot
log_path = /var/log/dovecot.log
ssl = no
mail_location = maildir:/var/mail/%u
mail_uid = vmail
mail_gid = vmail
first_valid_uid = 1
lmtp_rcpt_check_quota = yes
mail_plugins = quota
passdb {
  driver = passwd-file
  args = /etc/dovecot-users
}
userdb {
  driver = passwd-file
  args = /etc/dovecot-users
}
plugin {
  quota = maildir:User quota
}
service lmtp {
  unix_listener /var/spool/postfix/private/dovecot {
    mode = 0666
  }
}
`,
    '/etc/dovecot-users': [
      ...PEOPLE.map(name => `${name}@postfix-dovecot.org:${user}`),
      `full.box@postfix-dovecot.org:${user}::userdb_quota_rule=*:bytes=10`,
    ].join('\n'),
    [`/var/mail/full.box@postfix-dovecot.org/cur/1.a,S=${MESSAGE.length}:2,`]: MESSAGE,
  }
}

const POSTFIX_DOMAINS = ['plain', 'screen', 'grey', 'quota', 'any', 'alone', 'utf8', 'ascii',
  'listed', 'refuses', 'soft', 'tls', 'callout', 'slow', 'closed', 'defers']
  .map(name => `postfix-${name}.org`)
const EXIM_DOMAINS = ['plain', 'words', 'any', 'quota', 'closed', 'defers', 'listed', 'slow']
  .map(name => `exim-${name}.org`)

function eximConfig (port: number): string {
  return `
primary_hostname = mx.exim-servers.org
daemon_smtp_ports = ${port}
local_interfaces = <; ${[30, 31, 32].map(REAL_HOST).join(' ; ')}
domainlist lists = \\N^${LIST_DOMAIN}$\\N
domainlist ours = +lists : ${EXIM_DOMAINS.join(' : ')}
spool_directory = /var/spool/exim4
log_file_path = /var/log/exim4/%slog
host_lookup =
rfc1413_query_timeout = 0s
smtp_accept_max = 200
smtp_accept_max_per_host = 200
smtp_accept_queue_per_connection = 100
tls_advertise_hosts =
smtputf8_advertise_hosts = *
acl_smtp_connect = at_connect
acl_smtp_rcpt = at_rcpt
never_users = root
begin acl
at_connect:
  drop condition = \${if eq{$received_ip_address}{${REAL_HOST(32)}}}
    message = $sender_host_address is listed at dnsbl.sorbs.net
  accept condition = \${if eq{$received_ip_address}{${REAL_HOST(31)}}}
    delay = 9s
  accept
at_rcpt:
  deny message = relay not permitted
    !domains = +ours
  deny message = 552 5.2.2 Mailbox quota exceeded
    domains = exim-quota.org
    local_parts = full.box
  deny message = 552 5.2.2 Mailbox quota exceeded
    domains = +lists
    local_parts = \\N^${LIST_FULL_MAILBOX}$\\N
  deny message = 550 No such person at this address
    domains = exim-words.org
    !verify = recipient
  defer message = greylisted, please try again in five minutes
    domains = exim-defers.org
  require verify = recipient
  accept
begin routers
closed:
  driver = redirect
  domains = exim-closed.org
  local_parts = lsearch;/etc/exim/closed
  allow_fail
  data = :fail: This account has been closed
listed:
  driver = accept
  domains = +lists
  local_parts = \\N^${LIST_MAILBOX}$\\N
  transport = nowhere
people:
  driver = accept
  domains = !+lists : +ours
  local_parts = \${if eq{$domain_data}{exim-any.org}{*}{lsearch;/etc/exim/$domain_data}}
  transport = nowhere
begin transports
nowhere:
  driver = appendfile
  file = /dev/null
  user = vmail
`
}

/** Runs as the first process of a namespace: with it, all of its processes and files end. */
function bootScript (port: number): string {
  const files = Object.entries(filesOf(port)).map(([path, text]) =>
    `mkdir -p '${path.slice(0, path.lastIndexOf('/'))}'\ncat > '${path}' <<'END_OF_FILE'\n` +
    `${text}\nEND_OF_FILE\n`)
  return `
exec 3<&0 0</dev/null
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
umask 022
${files.join('')}
ln -s /run /var/run
mkdir -p /var/log/exim4 /var/spool/exim4 /var/lib/postgrey /run/dovecot /var/spool/smtpd
mkdir -p /var/lib/opensmtpd/empty /var/lib/postfix /run/opensmtpd /var/spool/postfix/private
chmod 1777 /tmp
chmod 711 /var/spool/smtpd
chown -R Debian-exim:Debian-exim /var/log/exim4 /var/spool/exim4
chown postgrey /var/lib/postgrey
chown -R vmail:vmail /var/mail
chown postfix /var/lib/postfix /var/spool/postfix/private
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=mx.servers.org \\
  -keyout /etc/ssl/server.key -out /etc/ssl/server.pem 2> /dev/null
chmod 600 /etc/ssl/server.key
postgrey --inet=127.77.0.99:10023 --delay=3 --user=postgrey --group=postgrey \\
  --dbdir=/var/lib/postgrey --whitelist-clients=/dev/null --whitelist-recipients=/dev/null &
mkdir -p /var/lib/postgrey-lists
chown postgrey /var/lib/postgrey-lists
postgrey --inet=127.77.0.99:10024 --delay=${LIST_GREYLIST_SECONDS} --user=postgrey \\
  --group=postgrey --greylist-text='Greylisted, try again in %s seconds' \\
  --auto-whitelist-clients=0 --dbdir=/var/lib/postgrey-lists --whitelist-clients=/dev/null \\
  --whitelist-recipients=/dev/null &
exim4 -C /etc/exim.conf -bdf &
smtpd -d -f /etc/smtpd.conf &
dovecot -F -c /etc/dovecot.conf &
postfix start-fg &
read line <&3
`
}

/** Mounts are of the namespace, so nothing of them outlives it. */
const ENTER = `
set -e
cd "$1/run"
mount -t tmpfs tmpfs .
cd "$1/run"
mkdir upper work all
mount -t overlay overlay -o "lowerdir=$1/system,upperdir=upper,workdir=work" all
mount --rbind /dev all/dev
mount -t proc proc all/proc
exec chroot all /bin/sh -c "$2"
`
const START_MS = 30_000
const POLL_MS = 200
const MAX_OUTPUT = 8_000

export type RealServers = { readonly stop: () => Promise<void> }

/** Starts Exim, Postfix, postgrey, OpenSMTPD and Dovecot. */
export async function startRealServers (
  { home, port }: RealServersOptions
): Promise<RealServers> {
  const addresses = [9, ...Object.keys(POSTFIX).map(Number), 30, 31, 32, 40, 41].map(REAL_HOST)
  return await startInNamespaces([ENTER, 'sh', home, bootScript(port)], { addresses, port })
}

/**
 * Runs a shell script with its arguments in namespaces of processes and mounts, and waits until
 * all addresses accept connections. Everything ends with this process, however it ends, if the
 * script waits for the end of its input.
 * @throws Error with their output if a server does not start.
 */
export async function startInNamespaces (
  script: readonly string[],
  { addresses, port }: { readonly addresses: readonly string[], readonly port: number }
): Promise<RealServers> {
  const child = spawn('unshare', ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-c',
    ...script], { stdio: ['pipe', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data: Buffer) => { output = (output + data).slice(-MAX_OUTPUT) })
  }
  const closed = once(child, 'close')
  const stop = async () => {
    child.stdin.end()
    await closed
  }
  const untilMs = Date.now() + START_MS
  for (const address of addresses) {
    while (!await answers(address, port)) {
      if (child.exitCode === null && Date.now() < untilMs) {
        await sleep(POLL_MS)
        continue
      }
      await stop()
      throw new Error(`the mail server at ${address}:${port} did not start:\n${output}`)
    }
  }
  return { stop }
}

async function answers (host: string, port: number): Promise<boolean> {
  const socket = connect({ host, port })
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
