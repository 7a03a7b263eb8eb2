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
 * A whole reply (RFC 5321, 4.2); `enhanced` is its code of RFC 3463, such as `5.1.1`, whichever way
 * the server writes it: `#5.1.1`, `5-1-1`, `(#5.1.1)` at the end, or behind a repeated basic code.
 */
export type SmtpReply = {
  readonly code: number
  readonly enhanced: string | undefined
  /** The text after the code, by line. It must not leave this folder. */
  readonly lines: readonly string[]
}

/** RFC 5321, 4.5.3.1.5 allows 512 bytes, which many servers exceed. */
const MAX_LINE_BYTES = 2_048
const MAX_LINES = 100

const LINE = /^([2-5]\d\d)(?:([ -])(.*))?$/s
const ENHANCED_FIRST = /^\s*(?:\d{3}[ :-]\s*)?#?([245])[.-](\d{1,3})[.-](\d{1,3})(?![.-]?\d)/
/** Within a line a code has points, and is not part of an IP address or a version. */
const ENHANCED_WITHIN = /(?<![\w.-])([245])\.(\d{1,3})\.(\d{1,3})(?![.-]?\w)/

/** Splits received bytes into replies; limits the length of a line and the number of lines. */
export class ReplyReader {
  #rest = ''
  #lines: string[] = []
  #code: string | undefined

  /** Whether there is no part of a further reply. */
  get isEmpty (): boolean {
    return this.#rest === '' && this.#code === undefined
  }

  /** The replies that these bytes complete. @throws RangeError if they are no replies. */
  push (bytes: Uint8Array): readonly SmtpReply[] {
    const lines = (this.#rest + Buffer.from(bytes).toString('latin1')).split('\n')
    if (lines.some(({ length }) => length > MAX_LINE_BYTES)) throw new RangeError('long line')
    this.#rest = lines.pop() ?? ''
    return lines.map((line) => this.#addLine(line.replace(/\r$/, '')))
      .filter((reply) => reply !== undefined)
  }

  #addLine (line: string): SmtpReply | undefined {
    const [, code, separator, text = ''] = LINE.exec(line) ?? []
    const lines = this.#lines
    const isOther = this.#code !== undefined && code !== this.#code
    if (code === undefined || isOther || lines.push(text) > MAX_LINES) {
      throw new RangeError('no line of a reply')
    }
    this.#code = separator === '-' ? code : undefined
    if (separator === '-') return undefined
    this.#lines = []
    const first = lines.map((it) => ENHANCED_FIRST.exec(it)).find((it) => it !== null)
    const within = lines.map((it) => ENHANCED_WITHIN.exec(it)).find((it) => it?.[1] === code[0])
    const enhanced = (first ?? within)?.slice(1).join('.')
    return { code: Number(code), enhanced, lines }
  }
}

const SECONDS_IN: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600 }
const WAIT = /\b(?:in|for|after|within|wait|least)\s+(\d{1,5})\s*(s|m|h)(?:ec\w*|in\w*|\b|our\w*)/i
const WAIT_CLOCK = /\b(?:in|for|after)\s+(\d{1,2}):(\d\d):(\d\d)\b/i
const MIN_WAIT_SECONDS = 10
const MAX_WAIT_SECONDS = 4 * 3_600

/**
 * Milliseconds after which a server that refuses for now wants to be asked again, within bounds;
 * undefined if its reply says no time.
 */
export function waitOf ({ code, lines }: SmtpReply): number | undefined {
  if (code < 400 || code >= 500) return undefined
  const text = lines.join(' ').slice(0, MAX_TEXT)
  const [, count, unit = ''] = WAIT.exec(text) ?? []
  const [, hours, minutes, seconds] = WAIT_CLOCK.exec(text) ?? []
  const wait = count !== undefined
    ? Number(count) * (SECONDS_IN[unit.toLowerCase()] ?? 1)
    : Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds)
  if (Number.isNaN(wait)) return undefined
  return Math.min(Math.max(wait, MIN_WAIT_SECONDS), MAX_WAIT_SECONDS) * 1_000
}

/**
 * Whether a server refuses for now because we ask too much, from too many connections or with too
 * little reputation: then further recipients of ours have the same answer. A rate of the mail that
 * the recipient gets is not ours, and greylisting is about each recipient alone.
 */
export function isTooFast (reply: SmtpReply, question: ReplyQuestion): boolean {
  const { code, enhanced = '' } = reply
  if (code < 400 || code >= 500) return false
  if (TOO_FAST_CODES.has(enhanced.slice(2))) return true
  const text = readText(reply, question)
  // A server that has enough of us now greets us once it has less.
  if (question.step === 'greeting' && TOO_MANY_SESSIONS.test(text)) return false
  return (TOO_FAST.test(text) || TOO_MANY_SESSIONS.test(text)) && !NOT_TOO_FAST.test(text)
}

/**
 * Whether a server refuses to pass mail on to the recipient's domain, which is not one of its own.
 * Anybody may name any server as that of his domain, so this says nothing about us.
 */
export function isOfDomain (reply: SmtpReply, question: ReplyQuestion): boolean {
  return question.step === 'recipient' && reply.code >= 500 &&
    NO_RELAY.test(readText(reply, question))
}

/** What a server was asked when it gave a reply. */
type ReplyQuestion = {
  readonly step: SmtpStep
  /** The name of the mail exchange. */
  readonly host?: string | undefined
  /** The addresses that it was asked with, if the reply is to a recipient. */
  readonly sender?: string
  readonly recipient?: string
}

/** Reads a reply to a step by the table. */
export function readReply (reply: SmtpReply, question: ReplyQuestion): Reading {
  const { code, enhanced } = reply
  const { step, host = '' } = question
  if (code < 400) {
    const isGood = step === 'greeting' ? code === 220 : code >= 200 && code < 300
    return { meaning: isGood ? 'accepted' : 'unclear', by: 'code' }
  }
  const facts = { step, host, code, subject: enhanced?.slice(2), text: readText(reply, question) }
  const rule = RULES.find(({ applies }) => applies(facts))?.rule
  const meaning = rule?.means ?? 'unclear'
  // What the documents of a host say of a code is as certain as the standard.
  const isConfirmed = rule?.codes?.includes('556') === true || rule?.hosts !== undefined ||
    (enhanced !== undefined && CONFIRMING[meaning]?.includes(enhanced.slice(2)) === true)
  return { meaning, by: isConfirmed ? 'code' : 'words' }
}

/** Replies rarely exceed 500 characters. The rest of a longer one says nothing new. */
const MAX_TEXT = 2_000

/**
 * The words of a reply between spaces, as phrases expect them. Addresses are removed: their local
 * parts may be words such as `spam`. Of a URL only the host is kept.
 */
function readText ({ lines }: Pick<SmtpReply, 'lines'>, question: ReplyQuestion): string {
  const raw = decode(lines.map((line) => line.slice(0, MAX_TEXT).replace(LEADING_CODES, ''))
    .join(' ').slice(0, MAX_TEXT))
  const named = nameParties(raw, question).replace(ADDRESS, ' @ ').replace(URL_PATH, ' $1 ')
  const hidden = named.split(/\s+/).map((word) => {
    const at = word.lastIndexOf('@')
    if (at < 0) return word
    // Barracuda writes the cause right behind the address: `user@example.com:blocked`.
    const colon = word.indexOf(':', at)
    return colon < 0 ? '@' : `@ ${word.slice(colon + 1)}`
  })
  return ` ${normalize(hidden.join(' '))} `
}

/**
 * Says in words whose domain or address a reply names: a domain is the recipient's or another one,
 * and an address is our sender's if the recipient's is not named as well.
 */
function nameParties (raw: string, { sender = '', recipient = '' }: ReplyQuestion): string {
  if (recipient === '') return raw
  const text = raw.toLowerCase()
  const domain = recipient.slice(recipient.lastIndexOf('@') + 1)
  const named = text.replaceAll(`domain ${domain}`, 'recipient domain')
  const isOurs = sender !== '' && text.includes(sender.toLowerCase()) &&
    !text.includes(recipient.toLowerCase())
  return isOurs ? `${named} sender` : named
}

const LEADING_CODES = /^\s*(?:\d{3}[ :-]\s*)?(?:#?\d[.-]\d{1,3}[.-]\d{1,3}\b)?/
const ADDRESS = /<[^<>@]{0,256}@[^<>]{0,256}>/g
const URL_PATH = /\bhttps?:\/\/([^\s/]{1,255})\S*/gi

/** Lines are decoded as Latin-1, in which every byte is a character. A last half one is dropped. */
function decode (latin1: string): string {
  try {
    const bytes = Buffer.from(latin1, 'latin1')
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true })
  } catch {
    return latin1
  }
}

/** Words of letters and digits, with single spaces between them. */
function normalize (text: string): string {
  return text.normalize('NFKD').toLowerCase().replace(ELISION, '$1 ')
    .replace(MARKS, '').replace(/[ıłøß]/g, (letter) => PLAIN[letter] ?? letter)
    .replace(/[^\p{L}\p{N}@]+/gu, ' ').replace(SPLIT, (word) => word.trim())
    .replace(WRAPPING, '').trim()
}

/** A gateway, or a server that asked another one, writes this before the cause. */
const WRAPPING = new RegExp(String.raw`\bunknown address error |` +
  String.raw`\bundeliverable address (?=\S)(?:host (?:\S+ ){1,12}?said )?|` +
  String.raw`\bin reply to (?:\S+ ){1,4}?command\b`, 'g')
const MARKS = /[\p{M}'\u2019`\u00b4]+/gu
/** A French or Italian article before its noun. */
const ELISION = /\b([cdjlns]|qu|dell|all)['\u2019](?=\p{L}{2})/gu
/** Letters that Unicode does not take apart. */
const PLAIN: Readonly<Record<string, string>> = { ı: 'i', ł: 'l', ø: 'o', ß: 'ss' }
/** Halves of words that are written both ways. */
const SPLIT = /\b(?:e (?=mail)|(?:black|block|deny) (?=list)|mail (?=box|boxes))/g

/**
 * A row of the table. It applies if everything that it states is true of the reply; the first row
 * that applies decides.
 */
type ReplyRule = {
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
 * may be missing, `..` is up to seven words, `~` as many without a word of `stop`, `word*` any word
 * that begins so, `^` and `$` are the ends of the text, and `{name}` is a choice from WORDS. In
 * scripts without spaces words are searched for as they are, and both gaps are 24 characters.
 */
const WORDS: Readonly<Record<string, string>> = {
  mailbox: 'user|users|mailbox|mailboxes|recipient|recipients|rcpt|account|accounts|addressee|' +
    'username|userid|inbox|alias|receiver|subscriber|mailaddress|emailaddress|maildrop|mail drop|' +
    'maildir|recepient|recepients|recipent|receipient|adressee|mailid|emailid|email id|local part',
  address: 'address|addresses|adress|addr',
  whose: 'email|recipient|recipients|destination|rcpt|target|user|users|receiver|mailbox|this|' +
    'that|to|such|internet|delivery',
  kind: 'email|mail|local|final|delivery|final delivery|known|smtp|virtual|internet|valid|' +
    'active|registered|remote|such|recipient|user|mailbox|account|destination|the|a|an|this|' +
    'that|your|our',
  /** These count also some words behind the mailbox. */
  gone: 'unknown|nonexistent|nonexistant|inexistent|unexisting|unrecognized|unrecognised|' +
    'unregistered|disabled|deactivated|inactive|suspend*|terminated|discontinued|unassigned|' +
    'deprovisioned|notfound|decommissioned|de activated|nonexisting|dormant|unallocated|' +
    'unprovisioned|unused|invalidated',
  /** These count only right behind the mailbox. */
  bad: 'expired|deleted|archived|retired|frozen|defunct|invalid|closed|locked|removed|cancelled|' +
    'canceled|undefined|undeliverable|obsolete|abandoned|dead|incorrect|wrong|unresolvable|' +
    'unroutable|unrouteable|unmonitored|blocked|moved|lapsed|ended|ceased|vacated|purged|erased|' +
    'gone|bogus|faulty|nonexistent|void|revoked|withdrawn|illegal|turned off|switched off|' +
    'shut down',
  be: 'is|are|was|were|has been|have been|had been|be|being|seems|appears|to be|either',
  now: 'currently|now|temporarily|permanently|administratively|already|already been|marked as|' +
    'marked|an|a|no longer valid or',
  not: 'not|no longer|never|isnt|arent|wasnt|cannot be|couldnt be|could not be|cant be|cannot',
  exist: 'exist|exists|existing|known|found|recognized|recognised|registered|active|valid|' +
    'defined|present|identified|enabled|activated|provisioned|exsist|located|resolved|local|' +
    'exit|exits|existent|listed|deliverable|correct|hosted|assigned|functional|operational|' +
    'in use|in service|on file|on record|usable|used|served|understood|maintained|created|' +
    '(in|on|at|with) (this|our|the|us) [local|user|mail] [server|system|host|directory|' +
    'database|records|list|site|service]',
  /** The domain that we named, not one that we are. */
  whoseDomain: '(recipient|recipients|destination|target|rcpt|addressee) [address|email|mail|s] ' +
    '(domain|domains|host|domain name)|domain [part|name] (of|in) [the|this] (address|recipient|' +
    'recipients|' +
    'destination|rcpt) [address]|this domain|(mail|email) domain',
  /** What is said of a mailbox that is not there or closed. */
  absent: '{gone}|{bad}|non existent|non existant|non existing|not here|no exist|no exists|' +
    'out of service|misspelled|mistyped|{not} [a|an|in|been|be|' +
    '{now}] [{kind}] {exist}|{dont} [seem to|appear to|{now}|actually] {exist}',
  /** Other things than a mailbox that may be missing. */
  thing: 'error|errors|server|servers|host|route|domain|domains|network|command|reason|file|' +
    'record|records|header|headers|key|data|store|service|path|code|option|protocol|url|' +
    'certificate|message|messages|msg|attachment|link|page|line|character|characters|content|' +
    'format|value|extension|gateway|backend|connection|database|ip|client|system',
  /** What has room for mail. */
  holder: '{mailbox}|folder|box|mailfile|mail file|mailfolder|mail folder|mailbox size|@',
  /** What a quota is of, and that it is used. */
  size: 'quota|quotas|diskquota|storage|space|diskspace|disk|capacity|allowance|mailbox size|' +
    'disk usage|storage limit|mailbox limit|size limit|maximum size|allocation|room',
  used: 'exceed|exceeds|exceeded|exceeding|over|over the|overfull|full|exhausted|used|used up|' +
    'ran ' +
    'out|run out|out of|reached|reaches|depleted|consumed|overflow|overflowed|overflowing|' +
    'overdrawn|overrun|insufficient|not enough|no more|lack of|no free|too large|too big|grown|' +
    'surpassed|beyond|above|violation',
  /** With these begins the talk of something else. */
  stop: '{thing}|owner|owners|filter|filters|from|sender|senders|sending|due|list|group|' +
    'contacts|policy|outgoing|limit of|literal|points',
  /** Without `cannot`, `does not` and the like. */
  dont: 'does no|does not|doesnt|dont|do not|didnt|did not|may not|might not|no longer|not|' +
    'cannot|cant',
  message: 'message|messages|mail|mails|email|emails|msg|content|data|letter|mailing|delivery',
}

type Language = {
  readonly mailbox: string
  /** What is said of a mailbox that does not exist or is closed; `before` right before its name. */
  readonly gone: string
  readonly before?: string
  readonly full: string
}

/** How servers speak of a mailbox in languages other than English, without accents. */
const LANGUAGES: Readonly<Record<string, Language>> = {
  German: {
    mailbox: 'benutzer*|empfanger*|empfaenger*|postfach*|adresse|emailadresse|konto|nutzer*|' +
      'teilnehmer*|mailkonto|emailkonto|mailbox|quota|speicher*',
    gone: 'unbekannt*|nicht bekannt|existiert nicht|existiert hier nicht|nicht gefunden|nicht ' +
      'vorhanden|nicht registriert|ungultig*|ungueltig*|deaktiviert|inaktiv|gesperrt|geloscht|' +
      'geloescht|geschlossen|gibt es nicht|existiert nicht mehr',
    before: 'unbekannt*|ungultig*|ungueltig*|kein|keine|kein solcher|keine solche|kein solches',
    full: 'zuviele|zu viele (mails|nachrichten)|voll|uberfullt|ueberfuellt|uberschritten|' +
      'ueberschritten|erschopft|erschoepft|belegt',
  },
  French: {
    mailbox: 'utilisateur*|destinataire*|boite*|adresse*|compte|usager|abonne|messagerie|bal|' +
      'quota|espace',
    gone: 'inconnu*|inexistant*|invalide*|introuvable*|desactive*|ferme|fermee|suspendu*|' +
      'archivee|nexiste|n existe|existe pas|existe plus|inactif|inactive|supprime*|non valide|' +
      'plus valide|pas valide',
    before: 'aucun|aucune|mauvaise',
    full: 'pleine|plein|saturee|sature|depasse*|atteint|remplie',
  },
  Spanish: {
    mailbox: 'usuario*|destinatario*|buzon*|casilla|cuenta|direccion|correo|bandeja|cuota|' +
      'persona|espacio',
    gone: 'desconocid*|inexistente|no existe|no existen|no encontrad*|no se encuentra|no ' +
      'valid*|invalid*|desactivad*|deshabilitad*|inactiv*|cerrad*|suspendid*|no esta ' +
      'registrad*|no registrad*|eliminad*|dado de baja|bloquead*|errone*',
    before: 'no existe|no existe el|no existe la|no existe ese|desconocid*|invalid*|no hay|' +
      'no existe ningun|no se encontro el|no existe esa|no existe dicha|no existe dicho',
    full: 'lleno|llena|excedid*|superad*|saturad*|agotad*|sin espacio',
  },
  Portuguese: {
    mailbox: 'usuario*|utilizador*|destinatario*|caixa|conta|endereco|correio|cota|quota|espaco|' +
      'pessoa',
    gone: 'desconhecid*|inexistente|nao existe|nao existem|nao encontrad*|invalid*|desativad*|' +
      'inativ*|bloquead*|cancelad*|encerrad*|suspens*|nao cadastrad*|nao registrad*|removid*',
    before: 'nao existe|nao existe o|nao existe a|nao existe esse|nao existe essa|desconhecid*|' +
      'invalid*',
    full: 'cheia|cheio|excedid*|lotada|esgotad*|ultrapassad*',
  },
  Italian: {
    mailbox: 'utente|utenti|destinatario|casella|indirizzo|account|quota|spazio',
    gone: 'sconosciut*|inesistente|non esiste|non esistono|non trovat*|non valid*|disabilitat*|' +
      'disattivat*|disatttivat*|inattiv*|sospes*|chius*|errat*|bloccat*|cancellat*|scadut*|' +
      'non e attiv*',
    before: 'nessun|non esiste|non esiste l|non esiste il|non esiste la',
    full: 'pien*|esaurit*|superat*',
  },
  Polish: {
    mailbox: 'uzytkownik*|skrzynk*|konto|konta|adres|adresat*|odbiorc*',
    gone: 'nieznan*|nie istnieje|nieaktywn*|zablokowan*|nieprawidlow*|nieistniejac*|wylaczon*|' +
      'nie znalezion*|usuniet*|zawieszon*',
    before: 'nieznan*|nie istnieje|nieprawidlow*|nie ma takiego|nie ma takiej|brak|nie znaleziono',
    full: 'pelna|przepelnion*|zapelnion*',
  },
  'Czech and Slovak': {
    mailbox: 'uzivatel*|pouzivatel*|schranka|schranky|adresat*|adresa|prijemce|prijemca|ucet',
    gone: 'neznam*|neexistuje|nenalezen*|nebyl nalezen|nebyla nalezena|zrusen*|neplatn*|' +
      'deaktivovan*|zablokovan*',
    full: 'plna|preplnena|prekrocena',
  },
  Dutch: {
    mailbox: 'gebruiker|ontvanger|postbus|postvak|adres|emailadres|account|mailbox',
    gone: 'onbekend*|bestaat niet|niet gevonden|bestaat hier niet|ongeldig|uitgeschakeld|' +
      'opgeheven|niet bekend',
    full: 'vol',
  },
  Scandinavian: {
    mailbox: 'mottaker*|mottagar*|anvandar*|modtager*|bruker*|bruger*|konto|kontoen|kontot|' +
      'adresse*|adressen|postkasse*|brevlada*|postlada*|innboks*|inkorg*',
    gone: 'ukjent|okand*|ukendt|finns inte|finnes ikke|findes ikke|eksisterer ikke|existerar ' +
      'inte|hittades inte|ikke funnet|ikke fundet|kunde inte hittas|deaktivert|inaktiverad|' +
      'deaktiveret|ugyldig|ogiltig',
    full: 'full|fuld|fullt',
  },
  Finnish: {
    mailbox: 'vastaanottaj*|kayttaj*|tili|tilia|osoite*|sahkoposti*|postilaatikko*',
    gone: 'ei ole|ei loydy|ei loytynyt|tuntematon|tuntemattomia|poistettu|suljettu',
    full: 'taynna|ylitetty|ylittynyt',
  },
  Hungarian: {
    mailbox: 'felhasznalo*|cimzett*|postafiok*|fiok|cim',
    gone: 'nem letezik|nem talalhato|ismeretlen|ervenytelen|megszunt|letiltva|nincs ilyen',
    full: 'megtelt|betelt|tele van',
  },
  Romanian: {
    mailbox: 'utilizator*|destinatar*|contul|cont|adresa|casuta',
    gone: 'nu exista|necunoscut*|inexistent*|invalid*|dezactivat*|nu a fost gasit*',
    full: 'plina|plin|depasit*',
  },
  'Serbian and Croatian': {
    mailbox: 'korisnik*|primatelj*|primalac|sanduci*|adresa|racun|nalog',
    gone: 'ne postoji|nepoznat*|nije pronad*|neispravn*|deaktiviran*',
    full: 'pun|puna|prepun*',
  },
  Turkish: {
    mailbox: 'kullanici*|hesap|hesabi|alici*|adres|adresi|kutusu|kota|kotasi',
    gone: 'yok|yoktur|bulunamadi|bulunmuyor|bilinmiyor|bilinmeyen|gecersiz|mevcut degil|' +
      'kapatilmis|devre disi',
    before: 'bilinmeyen|gecersiz|boyle bir',
    full: 'dolu|doldu|dolmus|asildi|asti',
  },
  Slavic: {
    mailbox: 'пользовател*|ящик*|адресат*|получател*|адрес|адреса|аккаунт*|абонент*|учетн*|' +
      'користувач*|скриньк*|одержувач*|отримувач*|обліков*|потребител*|квот*|поща|кутия',
    gone: 'не существует|не существуют|не найден*|неизвест*|не зарегистр*|отключен*|заблокир*|' +
      'удален*|неактив*|закрыт*|несуществ*|отсутств*|недействит*|нет|не існує|не знайден*|' +
      'невідом*|не съществува|непознат*|вимкнен*|видален*',
    before: 'нет|нет такого|нет такои|неизвест*|несуществ*|не найден|не найдена|не существует|' +
      'немає|немає такого|невідом*|няма такъв|няма',
    full: 'переполн*|заполнен*|превыш*|полон|полна|переповнен*|перевищ*|пълна|препълнен*|' +
      'исчерпан*',
  },
  Greek: {
    mailbox: 'χρηστης|χρηστη|παραληπτης|παραληπτη|λογαριασμος|διευθυνση|γραμματοκιβωτιο',
    gone: 'δεν υπαρχει|αγνωστος|αγνωστη|δεν βρεθηκε|απενεργοποιη*|ακυρη|μη εγκυρη',
    full: 'γεματο|πληρες',
  },
  Vietnamese: {
    mailbox: 'nguoi dung|nguoi nhan|dia chi|hop thu|tai khoan|hom thu',
    gone: 'khong ton tai|khong tim thay|khong hop le|bi khoa|đa bi vo hieu',
    before: 'khong co|khong tim thay',
    full: 'đay|vuot qua',
  },
  Indonesian: {
    mailbox: 'pengguna|penerima|alamat|akun|akaun|kotak surat|kotak masuk|peti mel',
    gone: 'tidak ditemukan|tidak dikenal|tidak ada|tidak valid|tidak aktif|tidak wujud|' +
      'tidak terdaftar|tidak dijumpai',
    before: 'tidak ada|tidak ditemukan',
    full: 'penuh',
  },
  Hebrew: {
    mailbox: 'המשתמש|משתמש|הנמען|נמען|תיבת|תיבה|התיבה|החשבון|חשבון|הכתובת|כתובת',
    gone: 'לא קיים|לא קיימת|לא נמצא|לא נמצאה|לא מוכר|אינו קיים|אינה קיימת|לא ידוע|לא פעיל',
    full: 'מלאה|מלא',
  },
  Arabic: {
    mailbox: 'المستخدم|مستخدم|المستلم|صندوق|الحساب|حساب|العنوان|عنوان|البريد',
    gone: 'غير موجود|غير موجوده|غير معروف|غير صالح|لا يوجد|معطل|غير نشط',
    before: 'لا يوجد|لا يوجد هذا',
    full: 'ممتلئ|ممتلئه|ممتلي',
  },
  Chinese: {
    mailbox: '用户|用戶|使用者|邮箱|郵箱|信箱|收件人|收件者|收信人|帐号|账号|帳號|帐户|账户|帳戶|地址|容量|空间|空間',
    gone: '不存在|未找到|找不到|无效|無效|停用|禁用|锁定|鎖定|冻结|凍結|注销|关闭|關閉|未注册|不正确',
    before: '找不到|无此|查无|查無|没有|沒有|不存在|无效的|無效的|未知',
    full: '已满|已滿|满|滿|不足|超过|超過|超出|用完|耗尽',
  },
  Japanese: {
    mailbox: 'ユーザー|ユーザ|アドレス|宛先|受信者|メールボックス|アカウント|受取人|容量',
    gone: '存在しま|存在しない|見つかりま|見つからな|不明|無効|ありません|登録されていま|解約|削除|使われておりま',
    before: '存在しない|無効な|不明な',
    full: 'いっぱい|一杯|満杯|超過|超え|不足|オーバー',
  },
  Korean: {
    mailbox: '사용자|수신자|수신인|메일함|편지함|계정|주소|받는 사람|용량',
    gone: '존재하지|없는|없습니다|찾을 수 없|유효하지|휴면|탈퇴|알 수 없',
    before: '존재하지 않는|없는|알 수 없는|잘못된|유효하지 않은',
    full: '가득|꽉|초과|부족',
  },
  Thai: {
    mailbox: 'ผู้ใช้|ผู้รับ|บัญชี|ที่อยู่|กล่องจดหมาย',
    gone: 'ไม่พบ|ไม่มี|ไม่รู้จัก|ไม่ถูกต้อง',
    full: 'เต็ม',
  },
}

const sayIn = (say: (language: Language) => readonly string[]): readonly string[] =>
  Object.values(LANGUAGES).flatMap(say)

/** About the sender's address, or a question that the server had to its host. */
const SENDER = [
  '(sender|senders|mailfrom|originator|originating|return path|reverse path|backscatter)',
  'mail from', 'from (address|addr|domain|header|field|line|your)', 'envelope (from|sender)',
  'null (address|sender|return)', 'sending (user|account|address|mailbox)',
  '(outgoing|outbound)',
  '(account|mailbox) or domain may', '(reply|return|bounce) [to] (address|mailbox)', '(callout|' +
    'callback|call back)', 'bounce attack*',
  '(expediteur*|emetteur*|absender*|remitente*|remetente*|mittente*|nadawc*|afzender*|' +
    'odesilatel*|' +
    'odosielatel*|avsandar*|avsender*|afsender*|lahettaj*|felado*|expeditor*|posiljatelj*|' +
    'posiljalac*|gonderen*|gonderici*|отправител*|відправник*|подател*|αποστολε*|pengirim*|' +
    'השולח|שולח|المرسل|مرسل)', 'nguoi gui',
  '发件人', '发件', '发送者', '发信', '寄信', '送信', '差出人', '寄件者', '寄件人', '발신', '송신', '보낸', 'ผู้ส่ง',
]

/** About our host, its address, its names and its rights. */
const CLIENT = [
  '(votre|vos|ihr|ihre|ihrer|ihrem|su ip|su servidor|su dominio|seu|sua|suo|sua|twoj|twoja|vas|' +
    'vase|uw|din|ваш|ваша|ваше|ваши|вашего)',
  '(adresse|direccion|endereco|indirizzo|adres|adresa|адрес*|alamat|dia chi) ip', '域名', 'ip地址',
  'ip位址', 'ipアドレス', 'ip 주소', 'ip주소',
  '(you are|youre|you were) (not|no|neither)', 'only (members|subscribers|registered|local users)',
  '(ip|ips|ipv4|ipv6|helo|ehlo|ptr|rdns|fqdn|netblock|dialup|dynamic|hostname|botnet)',
  'client (host|address|ip|name|was|is|not)', '(unknown|bad|unauthorized) client', 'client {dont}',
  'reverse (dns|zone|lookup|hostname|host|name|resolution|mapping|address)',
  'your (ip|ips|host|hostname|server|servers|network|domain|domains|provider|isp|mta|access|' +
    'connection|connections|organization|system|account|reputation|rate|client|computer|smtp|' +
    'country|company|mail server|email server|mailserver|address|name)',
  '(connecting|source|sending|submitting) (host|server|mta|address|domain|system|network|from)',
  'remote (host|client)', 'no (mx|a) record', 'bogus (mx|helo)', 'open (relay|proxy)',
  '(relay|relaying|relays) .. (denied|prohibited|permitted|allowed|access|refused|rejected|' +
    'disabled|unauthorized|not|forbidden|quota|limit|host|attempt)',
  '(not|no|unable to|cannot|cant|dont|wont|will not|doesnt|refuse to) .. (relay|relaying)',
  'rcpthosts', 'gateway user', '(domain of your|your (mail|email) (address|domain))',
  '(auth|authenticat*|login|logged|password|credentials|unauthenticated)',
  '(starttls|tls|ssl|encrypted|encryption|certificate)', '(log|logged|sign|signed) in',
  'from (this|that|your) (host|country)',
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
  'access (denied|refused|restricted|rejected)',
  '{dont} (accept|want) .. (delivery|this|your) [of] [this|your] {message}', 'will not accept',
  'not (allowed|permitted|allow)', 'denied',
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
  '(home|mail|spool) directory', 'no such file',
  '{bad} (the|you|your|this) (connection|session|message|mail|address|from)',
  '(if|whether|unless) [that] (this|the|your|an) ({mailbox}|{address})', '(file|lock|' +
    'process) [{be}] (not|no)',
]

/** Something else than a mailbox is said to be missing. */
const OTHER_THING = [
  '{thing} [{be}] [{now}] {absent}',
  '(unknown|no such|invalid|nonexistent|undefined|missing|bad|{gone}) [{kind}] {thing}',
]

/** About a later time. */
const RETRY = [
  '(being|is) (moved|migrated|rebuilt|restored|upgraded)', 'maintenance', 'delivery .. suspended',
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
  '(connection|bounce|login|send) (limit|quota)', '(number|count|rate) of', '发送', '频率',
  '(envio|invio|envois|versand*)',
  'quota (of|for) ~ (recipients|messages|mails|bounces|connections|senders)', 'full (name|' +
    'address|hostname|domain|email|qualified)',
  '(daily|hourly|relay|relaying|outgoing|outbound|rate|sending|sent|sender|connections|sessions|' +
    'throttl*|header|headers|hop|hops|attachment*|frequency|concurrent|unauthenticated)',
  'per (hour|day|minute|second|connection|session)', 'recipients [{be}] (over|exceed*)', '(you|' +
    'you have|youve) (reached|exceeded)',
  '(message|messages|recipients|rcpt) (rate|count|limit|quota)', 'recipient (rate|count|' +
    'limit)', 'too many recipients',
  '(connection|session|domain name)', '(today|this (session|connection|hour|minute))',
  '{message} .. (too large|too big|exceeds) .. {mailbox}', 'maximum size .. (accepts|allowed)',
  '{message} (size|length|exceed*|too large|too big|is too)', '(size|length) of (the|this|your|a)',
  'maximum [allowed|fixed] (message|number)', 'fixed maximum', 'recipients per',
  'your (mailbox|quota|account|disk|message size)', 'insufficient system',
  'server (disk|storage|is)', 'system (storage|is|disk)', 'size limit for', 'used for',
]

/** The mailbox has no room. */
const FULL = [
  '{holder} ~ {size} ~ {used}', '{holder} ~ {used} ~ {size}', '{size} ~ {used} ~ {holder}',
  '{used} ~ {size} ~ {holder}', '{holder} ~ (full|overfull|overquota|overfilled)',
  '{holder} [{be}|has] [{now}|become|grown|too|almost] ({used}|filled|overfilled)',
  '(full|overfull) {holder}', '(mailboxfull|mailbox size)',
  '(mailbox|storage|inbox|space|disk) limit [{be}] ({used}|hit)', '(no|enough) room .. {holder}',
  '{holder} ~ {dont} (hold|store|take) [any] more',
  '(mailbox|inbox|account) ~ (exceeded|over|reached|at) ~ (limit|size|maximum|its limit)',
  '{holder} ~ (enough|sufficient|no|low) [free|disk|storage|mailbox|more] {size}',
  '(no|enough|sufficient) [free|disk|storage|more] {size} (in|for|on|left) ~ {holder}',
  '{holder} ~ too (much|many) ~ (data|messages|mails|emails|stored|mail)', 'too much mail data',
  '{holder} [is] at (capacity|quota)', 'mail file ~ exceed*',
  ...sayIn(({ mailbox, full }) => [`(${mailbox}) ~ (${full})`]),
]

/** A quota, without saying whose. */
const QUOTA = [
  '(quota|quotas|diskquota|storage limit|disk space limit) .. {used}', 'overquota',
  '{used} .. (quota|quotas|diskquota|storage limit|disk space limit)',
  'quota (error|check|violation)',
  '(disk|diskspace|userdisk|domaindisk|mailbox|user|mail|storage) quota',
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
  '{mailbox} ~ ({gone})', '(account|mailbox|inbox) ~ (expired|deleted|archived)',
  '{whose} {address} ~ ({gone})', '{whose} {address} [{be}] [{be}] [{now}] ({gone}|{bad})',
  '{address} [{be}] [{now}] ({gone})',
  '{mailbox} ~ {not} [a|an|in|been|be|{now}] [{kind}] ({exist})',
  '{mailbox} ~ {dont} [seem to|appear to|{now}|actually|even] (exist|exists|exsist)',
  '(@|{whose} {address}|{address}|email|person) ~ ({dont}|{not}) [seem to|appear to|been|be|in|' +
    'a|{now}] (exist|exists|existing|registered|recognized|found|a known|active)',
  '(does not|doesnt|do not|dont) have [a|an|any] [{kind}] [{kind}] (account|mailbox|user|inbox)',
  '(dont|do not|doesnt|does not) (handle|know|recognize|host|serve) ~ ({mailbox}|{address}|person)',
  '{mailbox} ~ (not|isnt|arent) [listed|found|present] in ~ (directory|database|list|table|' +
    'system|domino)',
  'not [listed|found|present] in ~ (directory|user database|address book)',
  '{not} [a|an|one of|our|one of our] [{kind}] [{kind}] (user|users|customer|customers|mailbox|' +
    'subscriber|account|recipient) [here|of|at|on|anymore|$]',
  '(nobody|no one|noone) (here|by|with|named|at)',
  '(userunknown|usernotfound|nosuchuser|unknownuser|mailboxnotfound|recipientnotfound|' +
    'recipnotfound|unknownrecipient|invalidrecipient|notsuchuser|baduser|nouser)',
  '(cannot|cant|couldnt|could not|unable to|not able to|wasnt able to|failed to|didnt) (find|' +
    'locate|identify|recognize|match) ~ ({mailbox}|{whose} {address})',
  '{mailbox} [name|lookup|search|verification] ~ (lookup failed|not matched|unmatched)',
  '({mailbox}|{address}|@|employee|person|he|she) ~ no longer (here|works|with|employed|at|in ' +
    'use|available|valid|exists|receiving|accepting|accepts|uses|used|on|monitored|in service|' +
    'active)',
  'left (the|our|this) (company|organization|organisation|university|school|firm)',
  '{dont} work [here|for|with|at] [us|any]', '{dont} activate',
  '(unknown|not known|not found) (to|at|on|in|by) ~ (@|user|mailbox|recipient)',
  '(no|any) (record|entry|account|mailbox|match) (of|for|with|named|by) ~ ({mailbox}|{address})',
  '({mailbox}|{address}|@) [{be}|has|name] (moved|relocated|replaced by|changed to)',
  'user not local', 'not a local (user|address)',
  '({mailbox}|{address}|@) [{be}] [{be}] ({not}|{dont}) [{now}|be] [able to] (receive|receiving|' +
    'accept|accepting) [any|new|incoming|more] [email|mail] {message} $',
  '@ [{be}] [{be}] [{now}] ({gone})', 'unknown local part',
  '(dont|doesnt|not) have [a|any|this] {mailbox} (on|here|by|with|in|at)',
  '{dont} (exist|exists) (that|this|such) {mailbox}',
  '@ {not} [a|an|in|been|be|{now}] [{kind}] ({exist}|{mailbox}|{address})',
  '(badrcptto|bad rcpt to|badrecipientto)', 'no valid recipients ($|here|at|for|bye)',
  'no in name directory',
  '{mailbox} unavailable or access denied', 'envelope recipient has been denied',
  '{mailbox} or domain {be} ({gone}|{bad})', '{not} an active address',
  '(cant|cannot|could not) accept (user|recipient|rcpt)',
  '{message} ~ not [{now}] being accepted for (this|the|that) {mailbox}',
  '(inactivity|inactive) ~ ({mailbox})', '{mailbox} ~ (inactivity|out of service|not in use)',
  '@ recipient address rejected access denied', 'mailbox name not allowed',
  'mailbox unavailable or not local', '{address} not in use', 'no mailbox here', 'dd this user',
  ...sayIn(({ mailbox, gone, before = gone }) => [
    `(${mailbox}) ~ (${gone})`, `(${before}) [email|mail|emailul] (${mailbox})`,
  ]),
]

/** Common words of a refusal. They count only where nothing says that it is about us. */
const REFUSED = [
  '^ [requested] [mail] [action] [not] [taken] mailbox (unavailable|not available|name not)',
  '{mailbox} .. (unavailable|unavaiable|not available|name not allowed)',
  '^ recipient rejected $',
  'recipient [{be}] (rejected|refused|not accepted|not ok) $', 'not our (customer|user)',
  '^ (invalid|bad|unknown|illegal) {address}', 'unavailable [mail] (user|mailbox|recipient)',
  '{address} [{be}] (invalid|not valid|not known)',
  '(rejecting|rejected|refused|refusing) (recipient|recipients|rcpt|user) $', 'mailbox not accept*',
]

/** A mailbox, and anything that says that it is not there. */
const MISSING = [
  '({mailbox}|{address}|person|student|employee|customer) ~ {absent}', '@ [{be}] [{now}] {absent}',
  '(email|list|mailinglist|group) ~ ({dont}|{not}) [be|been|{now}] {exist}',
  '(misspelled|mistyped|unassigned|dead|unallocated|lapsed|{gone}) [{kind}] [{kind}] ' +
    '({mailbox}|{address}|person|list|group)',
  '{mailbox} {be} {not} (a|an|one of|our) ~ {mailbox}',
  '(recipient|user|mailbox|address) cannot be (verified|resolved|identified|delivered to)',
  '{mailbox} ~ {dont} receive ~ (any more|anymore|any longer)', 'no such ~ ({mailbox}|{address})',
  'no (mailbox|account|user|recipient|recipients) ($|with (this|that))', '(staff|member) not found',
  '(^|is|are|have|has|sorry|found|know|knows) no [{kind}] [{kind}] (user|mailbox|account|inbox|' +
    'alias|addressee|person|recipient|subscriber|customer)',
  '(cannot|cant|couldnt|could not|unable to|not able to|failed to|didnt|did not) (find|locate|' +
    'identify|recognize|match|resolve) ~ ({mailbox}|{address}|person|anyone|anybody)',
  '(nobody|no one|noone|no person|no body) ~ (name|address|here)',
  '^ {be} [{now}] ({gone})', 'archived {mailbox}', 'this {mailbox} ~ {dont} have ~ account',
]

/** The domain of the recipient is named as the cause. A domain alone may be that of the sender. */
const NO_MAIL = [
  '{whoseDomain} ~ ({absent}|parked|on hold|inexistent)',
  '{absent} {whoseDomain}',
  '{whoseDomain} ~ (no|without|{dont} have) [a|an|any|valid] (mx|mail service|mail server|' +
    'mailservice|mail exchange*|mailserver|email service)',
  '(no|find|resolve|locate|get) [a|an|any] (mx|mail exchange*|mail server) ~ {whoseDomain}',
  '{message} for {whoseDomain} ~ (no longer|not [being] [accepted|handled|delivered] $|' +
    'turned off|disabled|{gone}|{bad})',
  '{dont} (accept|accepting|receive|handle|host) ~ (for|of) (this|that|the) domain (any more|' +
    'anymore|any longer)', 'no longer (accept|accepts|accepting|handle|handles|host|hosts) [any] ' +
    '[email|mail|messages] [for|of] (this|that|the) domain',
  '(domain|host) ~ (accepts|receives|takes|handles|has) no [incoming|inbound] (mail|email)',
  '(null mx|nullmx)', 'bad destination system', '@ [bad|unknown] (host|domain) (unknown|not found)',
  '@ (unknown|no such) (host|domain)', '(recipient|destination) ~ (domain|host) ~ ({gone})',
  '(recipient|destination) ~ (unknown|invalid|no such|unrouteable|nonexistent) (domain|host)',
  '(recipient|destination) [{address}|rejected|mail|email] ~ (domain|host) ~ ({dont}|{not}) ' +
    '[be|been] ({exist})',
  'host unknown name server',
  '(domain|host) ~ ({dont}|not|never) [{now}|be] (accept|accepting|accepts|receive|receiving|' +
    'handle) [any|network] (mail|email|messages) [for this domain] $',
  '^ [@] {dont} (accept|receive) [any] (mail|email) $',
  '^ [this] (domain|host) accepts no (mail|email)', 'not accepting network messages',
  'this domain ~ ({gone}|no longer)', '^ (domain|host) (does not|doesnt) accept (mail|email)',
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
  '(trop de|zu viele|demasiad*|muitas|muitos|troppi|troppe|zbyt wiele|prilis mnoho|te veel|' +
    'слишком много|забагато|too many)', '(number|count|rate) of', 'today', '太多', '过多', '頻繁',
  'at a rate', 'receiving (mail|messages) too', 'too (quickly|many|often|fast)', 'rate limit*',
  'daily', 'frequency', 'receiving limit*', 'receiving (quota|rate)',
]

/** The table. Add a row above the first one that would read a reply wrong, and a test of it. */
const REPLY_RULES: readonly ReplyRule[] = [
  // Before a recipient was named nothing is about the mailbox.
  { means: 'blocked', steps: ['greeting', 'hello', 'sender'], codes: ['5xx'] },
  { means: 'blocked', steps: ['greeting', 'hello', 'sender'], codes: ['4xx'], words: LISTED },
  { means: 'greylisted', steps: ['greeting', 'hello', 'sender'], codes: ['4xx'] },
  // GoDaddy: IB and a number is about us, also IB607 behind 5.1.1. Gmail: 5.4.5 is our limit.
  { means: 'blocked', codes: ['5xx'], words: ['(ib1*|ib2*|ib4*|ib5*|ib6*|ib7*|ib9*)'] },
  { means: 'blocked', codes: ['5xx'], enhanced: ['4.5'] },
  { means: 'full', enhanced: ['2.2'], without: [...NOT_STORAGE, ...SENDER, ...SPAM] },
  { means: 'full', words: FULL, without: [...NOT_STORAGE, ...SENDER, ...SPAM] },
  // Gmail: 5.7.1 Email quota exceeded. A quota of policy is that of the sender.
  { means: 'blocked', codes: ['5xx'], enhanced: ['7.*', '5.3'], words: QUOTA },
  { means: 'full', words: QUOTA, without: [...NOT_STORAGE, ...SENDER, ...SPAM] },
  {
    means: 'full',
    codes: ['552'],
    words: ['exceeded storage allocation'],
    without: NOT_STORAGE,
  },
  {
    means: 'full',
    codes: ['550', '552', '554'],
    words: [
      '{dont} have enough {size}', '(insufficient|not sufficient|not enough) ' +
        '(disk|storage|mailbox) space', '^ exceeded storage allocation', 'mail file size exceeds',
    ],
    without: [...SENDER, ...SPAM, ...RETRY, '(system|server)', 'size of (the|this|your)'],
  },
  // Temporary: worth a retry, except lists of senders, which last longer than minutes.
  { means: 'limited', codes: ['452'], without: ['storage', 'space', 'resources'] },
  { means: 'limited', codes: ['4xx', '5xx'], enhanced: ['5.3'] },
  // Refusals count as errors: Postfix ends a session after 20 of them (smtpd_hard_error_limit).
  { means: 'limited', codes: ['421'], words: ['too many [bad] (errors|commands)'] },
  { means: 'blocked', codes: ['4xx'], words: LISTED },
  { means: 'greylisted', codes: ['4xx'] },
  // Permanent.
  { means: 'no_mail', codes: ['556'], without: [...SENDER, ...CLIENT] },
  // RFC 7504.
  {
    means: 'no_mail',
    codes: ['521'],
    words: ['({dont}|never) accept [any|incoming] (mail|email) ($|see|rfc)'],
    without: [...SENDER, ...CLIENT],
  },
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
  {
    means: 'no_mailbox',
    words: ['{mailbox} .. (inactivity|inactive)'],
    without: [...SENDER, ...CLIENT, ...SPAM],
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
  {
    means: 'no_mailbox',
    codes: ['550', '551', '552', '553'],
    words: MISSING,
    without: [...RETRY, ...OTHER_THING],
  },
  // Codes whose text says nothing else.
  { means: 'no_mailbox', enhanced: ['1.1', '1.3', '1.6', '2.1'] },
  { means: 'no_mail', enhanced: ['1.2', '1.10'] },
  { means: 'blocked', enhanced: ['1.7', '1.8', '7.*'] },
  { means: 'unclear' },
]

/** Of Google (an unusual rate) and of Microsoft (servers that are busy for us, reputation). */
const TOO_FAST_CODES: ReadonlySet<string> = new Set([
  '7.28', '7.500', '7.501', '7.550', '7.606', '7.650', '7.651', '7.652',
])

/** Enhanced codes that confirm what words say. */
const CONFIRMING: Readonly<Partial<Record<Meaning, readonly string[]>>> = {
  no_mailbox: ['1.0', '1.1', '1.3', '1.6', '1.10', '2.1', '4.1'],
  full: ['2.2'],
  no_mail: ['1.2', '1.10', '3.2'],
}

const NAME = /\{(\w+)\}/g

/** Every word of a text is followed by a space. */
const OPERATORS: Readonly<Record<string, string>> = {
  '(': '(?:',
  ')': ')',
  '[': '(?:',
  ']': ')?',
  '|': '|',
  '^': '(?<=^ )',
  $: '$',
  '..': String.raw`(?:\S+ ){0,7}?`,
  '~': String.raw`(?:(?!${expand('{stop}')} )\S+ ){0,7}?`,
}

const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\p{sc=Thai}]/u
const TOKEN = /\.\.|[()[\]|^$~]|[\p{L}\p{N}]*\*|[\p{L}\p{N}]+|@/gu

type Facts = {
  readonly step: SmtpStep
  readonly code: number
  /** The enhanced code without its class. */
  readonly subject: string | undefined
  readonly host: string
  readonly text: string
}

const RULES = REPLY_RULES.map((rule) => {
  const words = rule.words === undefined ? undefined : compilePhrases(rule.words)
  const without = rule.without === undefined ? undefined : compilePhrases(rule.without)
  const applies = ({ step, code, subject, host, text }: Facts): boolean =>
    (rule.steps?.includes(step) ?? true) &&
    (rule.codes?.some((it) => it === `${code}` || it === `${`${code}`[0]}xx`) ?? true) &&
    (rule.enhanced?.some((it) => it === subject ||
      (it.endsWith('*') && subject?.startsWith(it.slice(0, -1)) === true)) ?? true) &&
    (rule.hosts?.some((it) => host === it || host.endsWith(`.${it}`)) ?? true) &&
    (words?.test(text) ?? true) && without?.test(text) !== true
  return { rule, applies }
})

const TOO_FAST = compilePhrases([
  'too many (messages|mails|emails|requests|invalid)',
  '(connection|connections|message|sending|sender|client|unusual) (rate|frequency)',
  'rate limit*', 'rate exceeded', 'throttl*', 'slow down', 'frequency limited',
  'too (quickly|fast|often|much)', 'unexpected volume', 'deferred due to',
])
const TOO_MANY_SESSIONS = compilePhrases([
  'too many [concurrent|simultaneous|smtp|open|recent|incoming|new] (connections|connection|' +
    'sessions)', 'concurrent (connections|sessions)',
  'maximum (number of|allowed) (connections|sessions)', 'connection limit',
  '(trop de|zu viele|zuviele) (connexions|verbindungen)',
])
const NO_RELAY = compilePhrases([
  '(relay|relaying) .. (denied|prohibited|permitted|allowed|access|refused|rejected|disabled|' +
    'not|forbidden)', '(not|no|unable to|cannot|cant|dont|wont|will not|doesnt|refuse to) .. ' +
    '(relay|relaying)', 'rcpthosts',
])
/** The mail of the recipient, and a client that returned before its time. */
const NOT_TOO_FAST = compilePhrases([
  'receiving (mail|messages)', 'receiving limit*', '(greylist*|graylist*|grey list*|gray list*)',
])

/** One expression of all phrases. Every part of it is bounded, so its cost grows with the text. */
function compilePhrases (phrases: readonly string[]): RegExp {
  return new RegExp(phrases.map((phrase) => `(?:${compilePhrase(phrase)})`).join('|'), 'u')
}

function compilePhrase (phrase: string): string {
  const isSpaced = !UNSPACED.test(phrase)
  const tokens = expand(phrase).normalize('NFKD').toLowerCase().replace(MARKS, '').match(TOKEN)
  const source = (tokens ?? []).map((token) => isSpaced
    ? OPERATORS[token] ?? `${token.replace('*', String.raw`\S*`)} (?:@ )?`
    : token === '..' || token === '~' ? '.{0,24}?' : OPERATORS[token] ?? `${token} ?`).join('')
  return isSpaced ? ` ${source}` : source
}

/** A phrase with the words of WORDS in the place of their names. */
function expand (phrase: string): string {
  return phrase.replace(NAME, (_, name: string) => `(${expand(WORDS[name] ?? '')})`)
}
