/** The steps of a session that a server replies to. */
export type SmtpStep = 'greeting' | 'hello' | 'sender' | 'recipient'

/**
 * What a reply says of the recipient. `no_mailbox`: the mailbox does not exist or is closed.
 * `no_mail`: its domain accepts no mail. `greylisted`: not now. `limited`: no further recipient in
 * this session. `blocked`: the reply is about us, our sender, message or rate. `unclear`: none of
 * these, or not understood.
 */
export type Meaning =
  | 'accepted' | 'no_mailbox' | 'no_mail' | 'full' | 'greylisted' | 'blocked' | 'limited'
  | 'unclear'

/** A meaning and its evidence: a code that names the cause, or only words. */
export type Reading = { readonly meaning: Meaning, readonly by: 'code' | 'words' }

/**
 * A row of the table. It applies if everything that it states is true of the reply; the first row
 * that applies decides.
 */
export type ReplyRule = {
  readonly means: Exclude<Meaning, 'accepted'>
  readonly steps?: readonly SmtpStep[]
  /** Basic codes; `5xx` is the whole class. */
  readonly codes?: readonly string[]
  /** Enhanced codes (RFC 3463) without their class, which servers often get wrong: `1.1`, `7.*`. */
  readonly enhanced?: readonly string[]
  /** Domains of the mail exchange. */
  readonly hosts?: readonly string[]
  /** The text has at least one of these phrases. */
  readonly words?: readonly string[]
  /** The text has none of these phrases. */
  readonly without?: readonly string[]
}

/*
 * Phrases are matched by words, without case, accents, punctuation and addresses: `doesn't` is
 * `doesnt`, `e-mail` is `email`, `mail box` is `mailbox`. In a phrase `(a|b c)` is a choice, `[a]`
 * may be missing, `..` is up to seven words, `word*` any word that begins so, `^` and `$` are the
 * ends of the text, and `{name}` is a choice from WORDS. In scripts without spaces a phrase is
 * searched for as it is.
 */
export const WORDS: Readonly<Record<string, string>> = {
  mailbox: 'user|users|mailbox|mailboxes|recipient|recipients|rcpt|account|accounts|addressee|' +
    'username|userid|inbox|alias|receiver|subscriber|mailaddress|emailaddress|maildrop|maildir',
  address: 'address|addresses|adress|addr',
  whose: 'email|recipient|recipients|destination|rcpt|target|user|users|receiver|mailbox|this|' +
    'that|to|such|internet|delivery',
  kind: 'email|mail|local|final|delivery|final delivery|known|smtp|virtual|internet|valid|' +
    'active|registered|remote|such|recipient|user|mailbox|account|destination|the|a|an|this|' +
    'that|your|our',
  /** These count also some words behind the mailbox. */
  gone: 'unknown|nonexistent|nonexistant|inexistent|unexisting|unrecognized|unrecognised|' +
    'unregistered|disabled|deactivated|inactive|suspend*|terminated|discontinued|unassigned|' +
    'deprovisioned|notfound|decommissioned',
  /** These count only right behind the mailbox. */
  bad: 'expired|deleted|archived|retired|frozen|defunct|invalid|closed|locked|removed|cancelled|' +
    'canceled|undefined|undeliverable|obsolete|abandoned|dead|incorrect|wrong|unresolvable|' +
    'unroutable|unrouteable|unmonitored|blocked|moved',
  be: 'is|are|was|were|has been|have been|had been|be|being|seems|appears|to be|either',
  now: 'currently|now|temporarily|permanently|administratively|already|already been|marked as|' +
    'marked|an|a|no longer valid or',
  not: 'not|no longer|never|isnt|arent|wasnt|cannot be|couldnt be|could not be|cant be|cannot',
  exist: 'exist|exists|existing|known|found|recognized|recognised|registered|active|valid|' +
    'defined|present|identified|enabled|activated|provisioned|exsist|located|resolved|local',
  /** Without `cannot`, `does not` and the like. */
  dont: 'does no|does not|doesnt|dont|do not|didnt|did not|may not|might not|no longer|not|' +
    'cannot|cant',
  message: 'message|messages|mail|mails|email|emails|msg|content|data|letter|mailing|delivery',
}

/** About the sender's address, or a question that the server had to its host. */
const SENDER = [
  '(sender|senders|mailfrom|originator|originating|return path|reverse path|backscatter)',
  'mail from', 'from (address|addr|domain|header|field|line|your)', 'envelope (from|sender)',
  'null (address|sender|return)', '(callout|callback|call back)', 'bounce attack*',
  '(expediteur|emetteur|absender|absenders|remitente|remetente|mittente|nadawca|afzender)',
  '(отправител*)', '发件人', '发送者', '送信者', '差出人', '寄件者', '寄件人', '발신자', '보낸',
]

/** About our host, its address, its names and its rights. */
const CLIENT = [
  '(you are|youre|you were) (not|no|neither)', 'only (members|subscribers|registered|local users)',
  '(ip|ips|ipv4|ipv6|helo|ehlo|ptr|rdns|fqdn|netblock|dialup|dynamic|hostname|botnet)',
  'client (host|address|ip|name|was|is|not)', '(unknown|bad|unauthorized) client', 'client {dont}',
  'reverse (dns|lookup|hostname|host|name|resolution|mapping|address)',
  'your (ip|ips|host|hostname|server|servers|network|domain|domains|provider|isp|mta|access|' +
    'connection|connections|organization|system|account|reputation|rate|client|computer|smtp|' +
    'country|mail server|email server|mailserver|address|name)',
  '(connecting|source|sending|submitting) (host|server|mta|address|domain|system|network|from)',
  'remote (host|client)', 'no (mx|a) record', 'bogus (mx|helo)', 'open (relay|proxy)',
  '(relay|relaying|relays) .. (denied|prohibited|permitted|allowed|access|refused|rejected|' +
    'disabled|unauthorized|not|forbidden|quota|limit|host|attempt)',
  '(not|no|unable to|cannot|cant|dont|wont|will not|doesnt|refuse to) .. (relay|relaying)',
  'rcpthosts', 'gateway user', '(domain of your|your (mail|email) (address|domain))',
  '(auth|authenticat*|login|logged|password|credentials|unauthenticated)',
  '(starttls|tls|ssl|encrypted|encryption|certificate)', 'from (this|that|your) (host|country)',
]

/** About lists of senders, by kind or by name. */
const LISTED = [
  '(spamhaus|spamcop|barracuda|barracudacentral|sorbs|uceprotect|dnsbl|dnsbls|rbl|rbls|dsbl|' +
    'ordb|njabl|mailspike|senderscore|senderbase|cloudmark|csi|invaluement|spamrl|abuseat|cbl|' +
    'xbl|sbl|pbl|zen|psbl|surbl|uribl|abusix|hostkarma|spfbl|talosintelligence|trendmicro)',
  '(blacklist*|blocklist*|denylist*|blackhole*|blocked|ban|banned)',
  '(block|black|deny|private) (list|lists|listed|listing)',
  '(is|are|was|been|ip|host|client|currently) listed (at|in|by|on)', 'black ip',
  '(schwarze liste|liste noire|lista negra|czarna lista)', '(черн* спис*)', '黑名单', 'ブラックリスト',
  '블랙리스트',
]

/** About mail that is not wanted, or what the server thinks of us. */
const SPAM = [
  '(spam|spams|spammer|spammers|spamming|spammy|antispam|junk|junkmail|bulk|unsolicited|ube|uce)',
  '(phish*|virus*|antivirus|malware|infected|trojan|worm|scam|fraud*|forged|spoof*|abus*)',
  '(quarantin*|suspicious|suspect*|complaint|complaints|reputation|poor|untrusted|harvest*|' +
    'attack|attacks)',
  '(spf|openspf|dkim|dmarc|domainkeys|arc|alignment|unauthenticated)',
]

/** About what the server allows. */
const POLICY = [
  '(policy|policies|prohibit*|forbidden|unacceptable|disallowed|restricted|restriction*|banned)',
  '(authoriz*|authoris*|unauthorized|unauthorised|permission*|permitted|privilege*|security)',
  '(greylist*|graylist*|whitelist*|allowlist*|safelist|challenge|administrative)',
  '(rate|rates|ratelimit*|throttl*|frequen*|excessive*|flood*|volume|hourly|daily)',
  'too (many|much|fast|frequent|frequently|quickly|often)', '(limit|limits|limited|limiting)',
  'access (denied|refused|restricted|rejected)', 'not (allowed|permitted|allow)', 'denied',
  '(command|connection|connections|request|transaction|session) (denied|refused|rejected)',
  '{message} [{be}|has been] (rejected|refused|blocked|discarded|bounced)', 'refused',
  'rejected (due|because|by|for)',
  '(rejete|rejetee|refuse|refusee|rechazad*|rejeitad*|bloqueado|abgelehnt|abgewiesen|verweigert|' +
    'odrzucon*|rifiutat*|geweigerd)',
  '(отклон*|спам*|запрещ*)', '垃圾', '频率', '频繁', '拒绝', '拒絕', '拒否', '迷惑', '스팸', '차단', '거부',
]

/** About the form of the message or of the conversation. */
const FORM = [
  '(syntax|parse|sequence|parameter|parameters|argument|arguments|header|headers|attachment*)',
  '(loop|loops|looping|hop|hops|mime|8bitmime|smtputf8|encoding|charset|newline|rfc)',
  '{message} (size|length|too|exceed*|larger|format)', 'too (large|big|long|short)',
  '(bad|unrecognized|unknown|unimplemented|invalid) command', 'not implemented', 'command not',
]

/** About something else that is unknown or not there. */
const ELSE = [
  '{message} (to|for) .. {mailbox} [{be}|has] (deleted|expired|moved|removed|frozen|archived)',
  'unknown (error|reason|problem|host|network|command|issue|ip|option|extension|failure|status)',
  '(error|reason|cause) [is] unknown',
  '(server|store|database|service|directory|backend|cluster|verification|lookup|query) [{be}] ' +
    '(not|un|temporarily) (available|reachable|responding)',
  '(server|store|database|service|directory|backend) [{be}] (unavailable|down|offline|unreachable)',
  '(command|parameter|option|header|agent|input|format|syntax|count|procmail|exec|program)',
  '(home|mail|spool) directory', 'no such file', '(file|lock|process) [{be}] (not|no)',
]

/** About a later time. */
const RETRY = [
  '(timed out|try again|try later|retry|later|another process)',
  '(temporary|temporarily) (failure|error|problem|unavailable|lookup|failed|unable|local)',
]

/** About a fault of the server, or of another one that it asked. */
const SYSTEM = [
  '(timeout|deferred|resources|memory|overloaded|busy|maintenance|misconfigur*|ldap|queue)',
  '(timed out|try again|try later|later|retry)', '(temporary|internal|technical) *', 'temporarily',
  '(local|system|server|software|protocol|processing|network|database|mailer|media|mail system) ' +
    '(error|problem|failure|fault|configuration)',
  'service (unavailable|not available)',
  '(dns|lookup|resolver|query) (error|failure|query|timeout|failed)', 'lookup (failed|failure)',
  'connection (refused|lost|reset|closed|timed|dropped|failed)', 'message expired',
  '(system|server) (storage|resources|disk|full)', 'transaction failed', 'unreachable',
]

/** Quotas of what we send, and sizes of a message: not the quota of the mailbox. */
const NOT_STORAGE = [
  '(ip|client|host|bandwidth|traffic|api|license*|licence*)', 'receiving (limit*|rate|quota)',
  '(connection|bounce|login) (limit|quota)', 'full (name|address|hostname|domain|email|qualified)',
  '(daily|hourly|relay|relaying|outgoing|outbound|rate|sending|sent|sender|connections|sessions|' +
    'throttl*|header|headers|hop|hops|attachment*|frequency|concurrent|unauthenticated)',
  'per (hour|day|minute|second|connection|session)', '(you|you have|youve) (reached|exceeded)',
  '(message|messages|recipients|recipient|rcpt) (rate|count|limit)', 'too many recipients',
  '{message} (size|length|exceed*|too large|too big|is too)', '(size|length) of (the|this|your|a)',
  'maximum [allowed|fixed] (message|number)', 'fixed maximum', 'recipients per',
  'your (mailbox|quota|account|disk|message size)', 'insufficient system',
  'server (disk|storage|is)', 'system (storage|is|disk)', 'size limit for',
]

/** The mailbox has no room. */
const FULL = [
  '({mailbox}|quota|folder|mailfile|@) [{be}] [{now}|too|almost] (full|overfull|overflow|' +
    'overflowed|overflowing|overfilled|exhausted|filled|overquota)',
  '{mailbox} .. full', 'mail file .. (full|exceed*|quota)',
  '(full|overfull) (mailbox|inbox|maildrop)', '(mailboxfull|overquota)',
  '(over|overdrawn|above|beyond|out of) .. (quota|diskquota|mailbox size)',
  '{mailbox} .. (over|out of|no|beyond|exceeds|exceeded) .. (storage|space|diskspace)',
  '(exceed|exceeds|exceeded|exceeding|reached|reaches|used up|exhausted|surpassed) .. (quota|' +
    'quotas|diskquota|diskspace|mailbox size|mailbox limit|maximum mailbox|storage limit|' +
    'storage quota|disk space limit)',
  '(quota|quotas|diskquota|storage|disk space|mailbox size|mailbox limit|inbox|mailbox) .. ' +
    '(exceed|exceeds|exceeded|exceeding|exhausted|overflow|overrun|surpassed|violation)',
  '(not enough|insufficient|no more|no free|lack of) [free|disk|storage|available|mailbox] ' +
    '(space|storage|room|diskspace|quota) .. (mailbox|user|users|recipient*|account|inbox|left)',
  '{mailbox} .. (enough|sufficient|insufficient|no|out of|low) [free|disk|storage|mailbox] ' +
    '(space|storage|room)',
  '{mailbox} .. too (much|many) .. (data|messages|mails|emails|stored|mail)', 'too much mail data',
  '(no|not enough|insufficient) [free|disk|storage] (room|space|storage) (in|for|on) .. {mailbox}',
  '(@|{mailbox}) .. (not|doesnt) have (enough|sufficient|any) [free|disk|storage] (space|room)',
  '({mailbox}|quota) .. (space|quota|storage) .. (used up|exhausted|consumed|depleted)',
  'would exceed .. (quota|storage)', '(mailfolder|mail folder) .. full',
  '{mailbox} [is] at (capacity|quota|its limit)',
  '(mailbox|inbox) .. (exceeded|over|reached|at) .. (limit|size|maximum|capacity)',
  '{mailbox} .. (exceeded|reached|used up|exhausted) .. (mailbox|storage|disk|space) [limit|' +
    'size|quota]',
  '(disk|diskspace|domaindisk|mailbox|storage|user|mail|maildir) quota',
  'quota (exceeded|full|error|check|violation)',
  '(boite|messagerie|bal|compte) .. (pleine|plein|saturee|sature)', 'quota .. (depasse|atteint)',
  '(postfach|speicher*|konto|mailbox|quota) .. (voll|uberfullt|ueberfuellt|ueberschritten|' +
    'uberschritten|erschopft|belegt)',
  '(postvak|postbus|mailbox) .. vol',
  '(buzon|casilla|cuenta|bandeja|cuota) .. (lleno|llena|excedid*|superad*|saturad*)',
  '(caixa|conta|cota|quota|espaco) .. (cheia|cheio|excedid*|lotada|esgotad*)',
  '(casella|quota|spazio) .. (piena|esaurit*|superat*)',
  '(skrzynka|schranka) .. (pelna|przepelniona|plna)',
  '(ящик*|квот*) .. (переполнен*|заполнен*|превышен*|полон)', '邮箱已满', '邮箱满', '郵箱已滿', '信箱已滿', '信箱已满',
  '容量不足', '空间不足', '超过容量', '超出容量', 'メールボックスが一杯', 'メールボックスがいっぱい', '容量オーバー', '容量を超え', '메일함이 가득',
  '용량 초과', '용량을 초과', '용량이 초과',
]

/** The mailbox is named as the cause, and that it is not there or closed. */
const NO_MAILBOX = [
  'no such [{kind}] [{kind}] ({mailbox}|{address}|person|email|mail|individual)',
  'no [{kind}] [{kind}] (user|mailbox|account|alias|inbox|addressee) [{address}|{kind}|record] ' +
    '(here|by|with|found|named|of|at|matches|matching|exists|called|on|available)',
  'no recipient (found|by|with|named|here)', 'no (mailbox|account|user) for {whose}',
  '^ no (user|mailbox|account) $',
  '(unknown|nonexistent|non existent|non existant|non existing|nonexisting|unregistered|' +
    'inactive|undefined|disabled|deactivated|suspended|expired|deleted|terminated|unrecognized|' +
    'not valid|not existing|invalid|illegal|incorrect|wrong|bad|closed|undeliverable|' +
    'unresolvable|unallocated|defunct) [or|inactive|disabled|invalid|unknown] [{kind}] ' +
    '({mailbox})',
  '(unknown|nonexistent|undeliverable|inactive|invalid|bad|wrong|incorrect|unrouteable|' +
    'unroutable|illegal|dead|disabled|deactivated|expired) {whose} [{kind}|mailbox] {address}',
  '(unrouteable|unroutable|undeliverable|nonexistent|non existent|inactive|dead|discontinued|' +
    'unknown) {address}',
  'bad destination mailbox', '(address|recipient) unknown',
  '{mailbox} [name|id|{address}|email] [s] [that|which] [you] [entered|specified] [{be}] [{be}] ' +
    '[{now}] ({gone}|{bad})',
  '{mailbox} .. ({gone})', '(account|mailbox|inbox) .. (expired|deleted|archived)',
  '{whose} {address} .. ({gone})', '{whose} {address} [{be}] [{be}] [{now}] ({gone}|{bad})',
  '{address} [{be}] [{now}] ({gone})',
  '{mailbox} .. {not} [a|an|in|been|be|{now}] [{kind}] ({exist})',
  '{mailbox} .. {dont} [seem to|appear to|{now}|actually|even] (exist|exists|exsist)',
  '(@|{whose} {address}|{address}|email|person) .. ({dont}|{not}) [seem to|appear to|been|be|in|' +
    'a|{now}] (exist|exists|existing|registered|recognized|found|a known|active)',
  '(does not|doesnt|do not|dont) have [a|an|any] [{kind}] [{kind}] (account|mailbox|user|inbox)',
  '(dont|do not|doesnt|does not) (handle|know|recognize) .. ({mailbox}|{address}|person)',
  '{mailbox} .. (not|isnt|arent) [listed|found|present] in .. (directory|database|list|table|' +
    'system|domino)',
  'not [listed|found|present] in .. (directory|user database|address book)',
  'not [a|an|one of|our|one of our] [{kind}] [{kind}] (user|users|customer|customers|mailbox|' +
    'subscriber|account|recipient) [here|of|at|on|anymore|$]',
  '(nobody|no one|noone) (here|by|with|named|at)',
  '(userunknown|usernotfound|nosuchuser|unknownuser|mailboxnotfound|recipientnotfound|' +
    'recipnotfound|unknownrecipient|invalidrecipient|notsuchuser|baduser|nouser)',
  '(cannot|cant|couldnt|could not|unable to|not able to|wasnt able to|failed to|didnt) (find|' +
    'locate|identify|recognize|match) .. ({mailbox}|{whose} {address})',
  '{mailbox} [name|lookup|search|verification] .. (lookup failed|not matched|unmatched)',
  '({mailbox}|{address}|employee|person|he|she) .. no longer (here|works|with|employed|at|in ' +
    'use|available|valid|exists|receiving|accepting|accepts|uses|used|on|monitored|in service|' +
    'active)',
  'left (the|our) (company|organization|university)',
  '({mailbox}|{address}|@) [{be}|has|name] (moved|relocated|replaced by|changed to)',
  'user not local', 'not a local (user|address)',
  '({mailbox}|{address}|@) [{be}] [{be}] ({not}|{dont}) [{now}|be] [able to] (receive|receiving|' +
    'accept|accepting) [any|new|incoming|more] [email|mail] {message} $',
  '@ [{be}] [{be}] [{now}] ({gone})', 'unknown local part',
  '(dont|doesnt|not) have [a|any|this] {mailbox} (on|here|by|with|in|at)',
  '{dont} (exist|exists) (that|this|such) {mailbox}',
  '@ {not} [a|an|in|been|be|{now}] [{kind}] ({exist}|{mailbox}|{address})',
  '(badrcptto|bad rcpt to)', 'no valid recipients',
  '(cant|cannot|could not) accept (user|recipient|rcpt)',
  '{message} .. not [{now}] being accepted for (this|the|that) {mailbox}',
  '(inactivity|inactive) .. ({mailbox})', '{mailbox} .. (inactivity|out of service|not in use)',
  '@ recipient address rejected access denied', 'mailbox name not allowed',
  'mailbox unavailable or not local', '{address} not in use', 'no mailbox here', 'dd this user',
  '(benutzer|empfanger|empfaenger|postfach|adresse|konto|nutzer|empfangeradresse|mailbox|' +
    'empfaengeradresse|teilnehmer) .. (unbekannt|nicht bekannt|existiert nicht|nicht gefunden|' +
    'nicht vorhanden|ungultig|ungueltig|deaktiviert|inaktiv|gesperrt|geloscht|geloescht|' +
    'geschlossen|existiert hier nicht)',
  '(unbekannter|ungultiger|ungueltiger|kein|keine|unbekannte) [solcher|solche|solches] ' +
    '(benutzer|empfanger|empfaenger|postfach|adresse|nutzer|teilnehmer)',
  '(utilisateur|destinataire|boite|adresse|compte|usager|abonne) .. (inconnu|inconnue|' +
    'inexistant|inexistante|invalide|introuvable|desactive|desactivee|ferme|fermee|suspendu|' +
    'suspendue|archivee|nexiste|n existe|existe pas|inactif|inactive|supprime|supprimee|non ' +
    'valide)',
  'aucun (utilisateur|destinataire|compte)', '(utilisateur|destinataire) inconnu',
  '(usuario|destinatario|buzon|casilla|cuenta|direccion|correo|conta|caixa|endereco|utilizador) ' +
    '.. (desconocid*|inexistente|no existe|no encontrado|no valido|invalid*|desactivad*|' +
    'deshabilitad*|inactiv*|cerrad*|suspendid*|desconhecid*|nao existe|nao encontrado|' +
    'desativad*|inativ*|bloquead*|cancelad*|encerrad*|suspens*)',
  '(no existe|nao existe|desconocido|desconhecido) .. (usuario|cuenta|buzon|destinatario|conta|' +
    'endereco|casilla|direccion|persona|pessoa|buzon)',
  '(utente|destinatario|casella|indirizzo|account) .. (sconosciut*|inesistente|non esiste|non ' +
    'trovat*|non valid*|disabilitat*|disattivat*|inattiv*|sospes*|chius*)',
  'nessun utente',
  '(uzytkownik|skrzynka|konto|adres|adresat|odbiorca) .. (nieznany|nie istnieje|nieaktywn*|' +
    'zablokowan*|nieprawidlowy|nieistniejac*|wylaczon*)',
  'nie ma takiego (uzytkownika|adresu)',
  '(gebruiker|ontvanger|postbus|postvak|adres) .. (onbekend|bestaat niet|niet gevonden)',
  '(onbekende gebruiker|ukjent bruker|okand anvandare|okand mottagare|ukendt bruger)',
  '(uzivatel|schranka|adresat|prijemce) .. (neznamy|neexistuje|nenalezen|zrusena)',
  '(bruker|mottaker|mottagare|anvandare|modtager|bruger) .. (ukjent|okand|ukendt)',
  '(kullanici|hesap|alici|adres) .. (yok|bulunamadi|bilinmiyor|gecersiz|mevcut degil)',
  '(пользовател*|ящик*|адресат*|получател*|адрес*|аккаунт*|абонент*|користувач*|скринька) .. ' +
    '(не существует|не найден*|неизвест*|не зарегистр*|отключен*|заблокир*|удален*|неактив*|' +
    'закрыт*|несуществ*|отсутств*|недействит*|нет|не існує|не знайден*)',
  '(нет|неизвестный|несуществующий) .. (пользовател*|адресат*|получател*|ящик*)', '用户不存在', '用戶不存在',
  '邮箱不存在', '郵箱不存在', '收件人不存在', '找不到用户', '无此用户', '帐号不存在', '账号不存在', '帐户不存在', '账户不存在', '地址不存在', '用户被锁定',
  '用户已停用', '邮箱未找到', '收件者不存在', '查無此', '查无此', '无效的收件人', '无效用户', 'ユーザーは存在しません', 'ユーザーが存在しません',
  'ユーザが存在しません', 'ユーザは存在しません', 'アドレスは存在しません', 'アドレスが存在しません', 'ユーザー不明', 'ユーザ不明', '宛先不明',
  '受信者が見つかりません', 'ユーザーが見つかりません', '존재하지 않는 사용자', '존재하지 않는 메일', '없는 사용자', '사용자가 없습니다', '사용자를 찾을 수 없',
]

/** Common words of a refusal. They count only where nothing says that it is about us. */
const REFUSED = [
  '^ [requested] [mail] [action] [not] [taken] mailbox (unavailable|not available|name not)',
  '{mailbox} .. (unavailable|not available|name not allowed)', '^ (address|recipient) rejected $',
  'recipient [address] [{be}] (rejected|refused|not accepted) $', 'not our (customer|user)',
  '^ (invalid|bad|unknown|illegal) {address}', 'unavailable [mail] (user|mailbox|recipient)',
  '{address} [{be}] (invalid|not valid|not known)',
  '(rejecting|rejected|refused|refusing) (recipient|rcpt|address|user) $', 'mailbox not accept*',
]

/** The domain of the recipient is named as the cause. A domain alone may be that of the sender. */
const NO_MAIL = [
  '(null mx|nullmx)', 'bad destination system', '@ [bad|unknown] (host|domain) (unknown|not found)',
  '@ (unknown|no such) (host|domain)', '(recipient|destination) .. (domain|host) .. ({gone})',
  '(recipient|destination) .. (unknown|invalid|no such|unrouteable|nonexistent) (domain|host)',
  '(recipient|destination) [{address}|rejected|mail|email] .. (domain|host) .. ({dont}|{not}) ' +
    '[be|been] ({exist})',
  'host unknown name server', '(unrouteable|unroutable) mail domain',
  '(domain|host) .. ({dont}|not|never) [{now}|be] (accept|accepting|accepts|receive|receiving|' +
    'handle) [any|network] (mail|email|messages) [for this domain] $',
  '^ [@] {dont} (accept|receive) [any] (mail|email) $',
  '^ [this] (domain|host) accepts no (mail|email)', 'not accepting network messages',
  'this domain .. ({gone}|no longer)', '^ (domain|host) (does not|doesnt) accept (mail|email)',
]

/** A mailbox that is there and accepts some mail. */
const CHOOSY = [
  '(accept|accepts|accepting|receive|receives|receiving) [only|any] {message} (from|with|that|of)',
  '(accept|accepts|accepting|want|wish*) [to receive|any] (bounces|bounce|external|outside|' +
    'unverified|internet|attachments|html|anonymous|null|such|your|this)',
  '(from|by|to) (outside|external|anonymous|unverified|authenticated|internal|the outside)',
  '{mailbox} (only|prefers|preferences|policy|rules|settings)', '(user|recipient) (rules|filter)',
]

/** A mailbox that is there and gets more mail than it may. */
const RATE = [
  'at a rate', 'receiving (mail|messages) too', 'too (quickly|many|often|fast)', 'rate limit*',
  'daily', 'frequency', 'receiving limit*', 'receiving (quota|rate)',
]

/** The table. Add a row above the first one that would read a reply wrong, and a test of it. */
export const REPLY_RULES: readonly ReplyRule[] = [
  // Before a recipient was named nothing is about the mailbox.
  { means: 'blocked', steps: ['greeting', 'hello', 'sender'], codes: ['5xx'] },
  { means: 'blocked', steps: ['greeting', 'hello', 'sender'], codes: ['4xx'], words: LISTED },
  { means: 'greylisted', steps: ['greeting', 'hello', 'sender'], codes: ['4xx'] },
  // GoDaddy: IB and a number is about us, also IB607 behind 5.1.1. Gmail: 5.4.5 is our limit.
  { means: 'blocked', codes: ['5xx'], words: ['(ib1*|ib2*|ib4*|ib5*|ib6*|ib7*|ib9*)'] },
  { means: 'blocked', codes: ['5xx'], enhanced: ['4.5'] },
  { means: 'full', enhanced: ['2.2'], without: [...NOT_STORAGE, ...SENDER, ...SPAM] },
  { means: 'full', words: FULL, without: [...NOT_STORAGE, ...SENDER, ...SPAM] },
  { means: 'full', codes: ['552'], words: ['exceeded storage allocation'], without: NOT_STORAGE },
  // Temporary: worth a retry, except lists of senders, which last longer than minutes.
  { means: 'limited', codes: ['452'], without: ['storage', 'space', 'resources'] },
  { means: 'limited', codes: ['4xx', '5xx'], enhanced: ['5.3'] },
  { means: 'blocked', codes: ['4xx'], words: LISTED },
  { means: 'greylisted', codes: ['4xx'] },
  // Permanent.
  { means: 'no_mail', codes: ['556'], without: [...SENDER, ...CLIENT] },
  // Exchange Online and Outlook.com: the directory does not have the recipient.
  {
    means: 'no_mailbox',
    enhanced: ['5.0'],
    hosts: ['outlook.com'],
    words: ['requested action not taken mailbox unavailable'],
  },
  { means: 'no_mailbox', enhanced: ['4.1'], words: ['recipient address rejected access denied'] },
  {
    means: 'no_mailbox',
    enhanced: ['1.0', '1.1', '1.3', '1.6', '1.10', '2.1', '5.0'],
    words: NO_MAILBOX,
    without: [...SENDER, ...SPAM, ...RATE, ...CHOOSY],
  },
  // Yandex: the account is blocked, for good as far as mail can tell.
  {
    means: 'no_mailbox',
    hosts: ['yandex.ru', 'yandex.net'],
    words: ['policy rejection on the target address'],
  },
  { means: 'blocked', words: [...SENDER, ...CLIENT, ...LISTED] },
  // QQ: of the sender's domain.
  { means: 'blocked', words: ['(domain|ip|sender) frequency limited'] },
  { means: 'unclear', words: [...RATE, ...CHOOSY] },
  { means: 'blocked', words: SPAM },
  { means: 'no_mail', words: NO_MAIL, without: [...POLICY, ...RETRY] },
  { means: 'no_mailbox', words: NO_MAILBOX, without: [...RETRY, ...ELSE] },
  { means: 'blocked', words: POLICY },
  { means: 'unclear', words: [...FORM, ...SYSTEM, ...ELSE] },
  { means: 'no_mailbox', enhanced: ['1.0'], words: ['address rejected'] },
  { means: 'no_mailbox', codes: ['550', '551', '552', '553'], words: REFUSED },
  // Codes whose text says nothing else.
  { means: 'no_mailbox', enhanced: ['1.1', '1.3', '1.6', '2.1'] },
  { means: 'no_mail', enhanced: ['1.2', '1.10'] },
  { means: 'blocked', enhanced: ['1.7', '1.8', '7.*'] },
  { means: 'unclear' },
]

/** Enhanced codes that confirm what words say. */
export const CONFIRMING: Readonly<Partial<Record<Meaning, readonly string[]>>> = {
  no_mailbox: ['1.0', '1.1', '1.3', '1.6', '1.10', '2.1', '4.1'],
  full: ['2.2'],
  no_mail: ['1.2', '1.10', '3.2'],
}
