/*
 * The phrases of refusals by what they are about. What follows from them is in `replies.ts`.
 *
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
  /** What a mailbox is said to be for good, and for a while with `temporarily` beside it. */
  ended: 'suspend*|frozen|expired|removed|terminated|discontinued|unassigned|dormant|archived|' +
    'revoked|withdrawn|invalid|unused',
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
  /** What is said of a mailbox without room, and what of anything beyond its limit. */
  readonly full: string
  readonly exceeded?: string
  /** What has a limit that only mailboxes have. */
  readonly room?: string
}

/** How servers speak of a mailbox in languages other than English, without accents. */
const LANGUAGES: Readonly<Record<string, Language>> = {
  German: {
    mailbox: 'benutzer*|empfanger*|empfaenger*|postfach*|adresse|emailadresse|konto|nutzer*|' +
      'teilnehmer*|mailkonto|emailkonto|mailbox',
    gone: 'unbekannt*|nicht bekannt|existiert nicht|existiert hier nicht|nicht gefunden|nicht ' +
      'vorhanden|nicht registriert|ungultig*|ungueltig*|deaktiviert|inaktiv|gesperrt|geloscht|' +
      'geloescht|geschlossen|gibt es nicht|existiert nicht mehr',
    before: 'unbekannt*|ungultig*|ungueltig*|kein|keine|kein solcher|keine solche|kein solches',
    full: 'voll|uberfullt|ueberfuellt',
    exceeded: 'zuviele|zu viele (mails|nachrichten)|uberschritten|ueberschritten|erschopft|' +
      'erschoepft|belegt',
    room: 'quota|kontingent|speicher*',
  },
  French: {
    mailbox: 'utilisateur*|destinataire*|boite*|adresse*|compte|usager|abonne|messagerie|bal',
    gone: 'inconnu*|inexistant*|invalide*|introuvable*|desactive*|ferme|fermee|suspendu*|' +
      'archivee|nexiste|n existe|existe pas|existe plus|inactif|inactive|supprime*|non valide|' +
      'plus valide|pas valide',
    before: 'aucun|aucune|mauvaise',
    full: 'pleine|plein|saturee|sature|remplie',
    exceeded: 'depasse*|atteint',
    room: 'quota|espace|stockage',
  },
  Spanish: {
    mailbox: 'usuario*|destinatario*|buzon*|casilla|cuenta|direccion|correo|bandeja|' +
      'persona',
    gone: 'desconocid*|inexistente|no existe|no existen|no encontrad*|no se encuentra|no ' +
      'valid*|invalid*|desactivad*|deshabilitad*|inactiv*|cerrad*|suspendid*|no esta ' +
      'registrad*|no registrad*|eliminad*|dado de baja|bloquead*|errone*',
    before: 'no existe|no existe el|no existe la|no existe ese|desconocid*|invalid*|no hay|' +
      'no existe ningun|no se encontro el|no existe esa|no existe dicha|no existe dicho',
    full: 'lleno|llena|saturad*|sin espacio',
    exceeded: 'excedid*|superad*|agotad*',
    room: 'cuota|espacio|almacenamiento',
  },
  Portuguese: {
    mailbox: 'usuario*|utilizador*|destinatario*|caixa|conta|endereco|correio|pessoa',
    gone: 'desconhecid*|inexistente|nao existe|nao existem|nao encontrad*|invalid*|desativad*|' +
      'inativ*|bloquead*|cancelad*|encerrad*|suspens*|nao cadastrad*|nao registrad*|removid*',
    before: 'nao existe|nao existe o|nao existe a|nao existe esse|nao existe essa|desconhecid*|' +
      'invalid*',
    full: 'cheia|cheio|lotada',
    exceeded: 'excedid*|esgotad*|ultrapassad*',
    room: 'cota|quota|espaco|armazenamento',
  },
  Italian: {
    mailbox: 'utente|utenti|destinatario|casella|indirizzo|account',
    gone: 'sconosciut*|inesistente|non esiste|non esistono|non trovat*|non valid*|disabilitat*|' +
      'disattivat*|disatttivat*|inattiv*|sospes*|chius*|errat*|bloccat*|cancellat*|scadut*|' +
      'non e attiv*',
    before: 'nessun|non esiste|non esiste l|non esiste il|non esiste la',
    full: 'pien*',
    exceeded: 'esaurit*|superat*',
    room: 'quota|spazio',
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
    full: 'plna|preplnena',
    exceeded: 'prekrocena',
    room: 'kapacita|kvota',
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
    full: 'taynna',
    exceeded: 'ylitetty|ylittynyt',
    room: 'tallennustila*|kiintio',
  },
  Hungarian: {
    mailbox: 'felhasznalo*|cimzett*|postafiok*|fiok|cim',
    gone: 'nem letezik|nem talalhato|ismeretlen|ervenytelen|megszunt|letiltva|nincs ilyen',
    full: 'megtelt|betelt|tele van',
  },
  Romanian: {
    mailbox: 'utilizator*|destinatar*|contul|cont|adresa|casuta',
    gone: 'nu exista|necunoscut*|inexistent*|invalid*|dezactivat*|nu a fost gasit*',
    full: 'plina|plin',
    exceeded: 'depasit*',
  },
  'Serbian and Croatian': {
    mailbox: 'korisnik*|primatelj*|primalac|sanduci*|adresa|racun|nalog',
    gone: 'ne postoji|nepoznat*|nije pronad*|neispravn*|deaktiviran*',
    full: 'pun|puna|prepun*',
  },
  Turkish: {
    mailbox: 'kullanici*|hesap|hesabi|alici*|adres|adresi|kutusu',
    gone: 'yok|yoktur|bulunamadi|bulunmuyor|bilinmiyor|bilinmeyen|gecersiz|mevcut degil|' +
      'kapatilmis|devre disi',
    before: 'bilinmeyen|gecersiz|boyle bir',
    full: 'dolu|doldu|dolmus',
    exceeded: 'asildi|asti',
    room: 'kota|kotasi|kapasite*',
  },
  Slavic: {
    mailbox: 'пользовател*|ящик*|адресат*|получател*|адрес|адреса|аккаунт*|абонент*|учетн*|' +
      'користувач*|скриньк*|одержувач*|отримувач*|обліков*|потребител*|поща|кутия',
    gone: 'не существует|не существуют|не найден*|неизвест*|не зарегистр*|отключен*|заблокир*|' +
      'удален*|неактив*|закрыт*|несуществ*|отсутств*|недействит*|нет|не існує|не знайден*|' +
      'невідом*|не съществува|непознат*|вимкнен*|видален*',
    before: 'нет|нет такого|нет такои|неизвест*|несуществ*|не найден|не найдена|не существует|' +
      'немає|немає такого|невідом*|няма такъв|няма',
    full: 'переполн*|заполнен*|полон|полна|переповнен*|пълна|препълнен*',
    exceeded: 'превыш*|перевищ*|исчерпан*',
    room: 'квот*',
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
    full: 'đay',
    exceeded: 'vuot qua',
    room: 'dung luong',
  },
  Indonesian: {
    mailbox: 'pengguna|penerima|alamat|akun|akaun|kotak surat|kotak masuk|peti mel',
    gone: 'tidak ditemukan|tidak dikenal|tidak ada|tidak valid|tidak aktif|tidak wujud|' +
      'tidak terdaftar|tidak dijumpai',
    before: 'tidak ada|tidak ditemukan',
    full: 'penuh',
    room: 'kuota',
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
    mailbox: '用户|用戶|使用者|邮箱|郵箱|信箱|收件人|收件者|收信人|帐号|账号|帳號|帐户|账户|帳戶|地址',
    gone: '不存在|未找到|找不到|无效|無效|停用|禁用|锁定|鎖定|冻结|凍結|注销|关闭|關閉|未注册|不正确',
    before: '找不到|无此|查无|查無|没有|沒有|不存在|无效的|無效的|未知',
    full: '已满|已滿|爆满|爆滿|满了|空间不足|空間不足|空间已不足|容量不足',
    exceeded: '超过|超過|超出|用完|耗尽',
    room: '容量|空间|空間',
  },
  Japanese: {
    mailbox: 'ユーザー|ユーザ|アドレス|宛先|受信者|メールボックス|アカウント|受取人',
    gone: '存在しま|存在しない|見つかりま|見つからな|不明|無効|ありません|登録されていま|解約|削除|使われておりま',
    before: '存在しない|無効な|不明な',
    full: 'いっぱい|一杯|満杯',
    exceeded: '超過|超え|不足|オーバー',
    room: '容量',
  },
  Korean: {
    mailbox: '사용자|수신자|수신인|메일함|편지함|계정|주소|받는 사람',
    gone: '존재하지|없는|없습니다|찾을 수 없|유효하지|휴면|탈퇴|알 수 없',
    before: '존재하지 않는|없는|알 수 없는|잘못된|유효하지 않은',
    full: '가득|꽉',
    exceeded: '초과|부족',
    room: '용량',
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
export const SENDER = [
  '(sender|senders|mailfrom|originator|originating|return path|reverse path|backscatter)',
  'mail from', 'from (address|addr|domain|header|field|line|your)', 'envelope (from|sender)',
  'null (address|sender|return)', 'sending (user|account|address|mailbox)',
  '(outgoing|outbound|outbounds|submission)',
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
export const CLIENT = [
  '(votre|vos|ihr|ihre|ihrer|ihrem|su ip|su servidor|su dominio|seu|sua|suo|sua|twoj|twoja|vas|' +
    'vase|uw|din|ваш|ваша|ваше|ваши|вашего|вашим|вашу|вашої|vasa|vaseg*|anda|cua ban|' +
    'dumneavoastra|adresiniz*|osoitettasi|osoitteesi|σας|שלך|عنوانك)',
  'su (direccion|correo|cuenta) [de correo] [ha sido|esta|fue|es|no|no es|no esta] (bloquead*|' +
    'suspendid*|desactivad*|deshabilitad*|inhabilitad*|invalid*|valid*|registrad*|' +
    'autorizad*|permitid*|eliminad*|cerrad*)',
  '(您的|你的|贵方) (邮箱|郵箱|帐号|账号|帐户|账户|帳號|帳戶|地址|域|服务器|伺服器|ip)', 'お客様の', 'あなたの',
  '貴社', '(귀하의|당신의) (계정|주소|메일 주소|이메일 주소|서버|도메인|ip)', 'ของคุณ',
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
  'remote (host|client)', 'no (mx|a) record', '(invalid|bad) dns', 'bogus (mx|helo)',
  'open (relay|proxy)',
  '(relay|relaying|relays) .. (denied|prohibited|permitted|allowed|access|refused|rejected|' +
    'disabled|unauthorized|not|forbidden|quota|limit|host|attempt)',
  '(not|no|unable to|cannot|cant|dont|wont|will not|doesnt|refuse to) .. (relay|relaying)',
  'rcpthosts', 'gateway user', '(domain of your|your (mail|email) (address|domain))',
  '(auth|authenticat*|login|logged|password|credentials|unauthenticated)',
  '(starttls|tls|ssl|encrypted|encryption|certificate)', '(log|logged|sign|signed) in',
  'from (this|that|your) (host|country)',
]

/** About lists of senders, by kind or by name. */
export const LISTED = [
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
export const SPAM = [
  '(spam|spams|spammer|spammers|spamming|spammy|antispam|junk|junkmail|bulk|unsolicited|ube|uce)',
  '(phish*|virus*|antivirus|malware|infected|trojan|worm|scam|fraud*|forged|spoof*|abus*)',
  '(quarantin*|suspicious|suspect*|complaint|complaints|reputation|poor|untrusted|harvest*|' +
    'attack|attacks)',
  '(spf|openspf|dkim|dmarc|domainkeys|arc|alignment|unauthenticated)',
]

/** About what the server allows. */
export const POLICY = [
  '(policy|policies|prohibit*|forbidden|unacceptable|disallowed|restricted|restriction*|banned)',
  '(authoriz*|authoris*|unauthorized|unauthorised|permission*|permitted|privilege*|security)',
  '(greylist*|graylist*|whitelist*|allowlist*|safelist|challenge|administrative)',
  '(rate|rates|ratelimit*|throttl*|frequen*|excessive*|flood*|volume|hourly|daily)',
  'too (many|much|fast|frequent|frequently|quickly|often)', '(limit|limits|limited|limiting)',
  // QQ has a slip of the pen.
  'access (denied|denined|refused|restricted|rejected)',
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
export const FORM = [
  '(syntax|parse|sequence|parameter|parameters|argument|arguments|header|headers|attachment*)',
  '(loop|loops|looping|hop|hops|mime|8bitmime|smtputf8|encoding|charset|newline|rfc)',
  '{message} (size|length|too|exceed*|larger|format)', 'too (large|big|long|short)',
  '(bad|unrecognized|unknown|unimplemented|invalid) command', 'not implemented', 'command not',
]

/** About something else that is unknown or not there. */
export const ELSE = [
  '{message} (to|for) .. {mailbox} [{be}|has] (deleted|expired|moved|removed|frozen|archived)',
  'unknown (error|reason|problem|host|network|command|issue|ip|option|extension|failure|status)',
  '(error|reason|cause|host) [is] unknown',
  '(server|store|database|service|directory|backend|cluster|verification|lookup|query) [{be}] ' +
    '(not|un|temporarily) (available|reachable|responding)',
  '(server|store|database|service|directory|backend) [{be}] (unavailable|down|offline|unreachable)',
  '(command|parameter|option|header|agent|input|format|syntax|count|procmail|exec|program)',
  '(home|mail|spool) directory', 'no such file', '(internal|system) error', 'lookup failed',
  '{bad} (the|you|your|this) (connection|session|message|mail|address|from)',
  '(if|whether|unless) [that] (this|the|your|an) ({mailbox}|{address})', '(file|lock|' +
    'process) [{be}] (not|no)',
]

/** Something else than a mailbox is said to be missing. */
export const OTHER_THING = [
  '{thing} [{be}] [{now}] {absent}',
  '(unknown|no such|invalid|nonexistent|undefined|missing|bad|{gone}) [{kind}] {thing}',
]

/**
 * About a state that ends by itself, or a question that the server could not answer itself: it
 * refuses nobody for good, whatever the code says.
 */
export const TEMPORARY = [
  '(temporary|temporarily) (disabled|deactivated|inactive|locked|blocked|closed|unknown|not|' +
    'unavailable|unable|failure|failed|error|problem|rejected|refused|undeliverable|moved|out)',
  'temporarily [{be}] ({ended})',
  '(unknown|unavailable|disabled|deactivated|inactive|locked|blocked|closed|moved|{ended}) ' +
    '(temporarily|at the moment|for the moment|for now|right now)',
  '(retry|try [it] again|try) later',
  '(voruebergehend*|vorubergehend*|zeitweise|zeitweilig|spater|spaeter|momentan|derzeit|' +
    'temporairement|provisoirement|momentanement|temporalmente|temporariamente|temporaneamente|' +
    'momentaneamente|czasowo|tymczasowo|chwilowo|docasne|prechodne|tijdelijk|tillfalligt|' +
    'midlertidig*|valiaikaisesti|ideiglenesen|temporar|privremeno|προσωρινα|gecici*|временно|' +
    'тимчасово|sementara|זמנית|مؤقتا)',
  '(plus tard|mas tarde|mais tarde|piu tardi|tam thoi)', '暂时', '暫時', '临时', '臨時', '稍后', '稍後',
  '一時的', 'しばらく', '일시적', '잠시', 'ชั่วคราว',
  '(currently|presently) (unavailable|not available)',
  '(unavailable|not available) (at this time|at the moment|now|right now|today)',
  '(being|is) (moved|migrated|rebuilt|restored|upgraded|created)', 'maintenance',
  'unverified address', 'verification in progress', 'name service error', 'lost connection with',
  '(database|directory|ldap|server|backend) [server] [{be}] (error|failure|unavailable|down|' +
    'unreachable|not available|timed out|could not be|cannot be)',
]

/** About a later time too: a code that names the mailbox as the cause outranks these words. */
export const LATER = [
  ...TEMPORARY, 'delivery .. suspended', '(high|heavy) load', 'another time',
  '(timed out|try again|try later|retry|later|another process)', '(temporary|temporarily) ' +
    '(lookup|local)',
]

/** About a fault of the server, or of another one that it asked. */
export const SYSTEM = [
  '(timeout|deferred|resources|memory|overloaded|busy|misconfigur*|ldap|queue)',
  '(temporary|internal|technical) *', 'temporarily',
  '(local|system|server|software|protocol|processing|network|database|mailer|media|mail system) ' +
    '(error|problem|failure|fault|configuration)',
  'service (unavailable|not available)',
  '(dns|lookup|resolver|query) (error|failure|query|timeout|failed)', 'lookup (failed|failure)',
  'connection (refused|lost|reset|closed|timed|dropped|failed)', 'message expired',
  '(system|server) (storage|resources|disk|full)', 'transaction failed', 'unreachable',
]

/** Of what one sends, or of a mailbox. */
export const LIMIT = [
  '(maximal*|limite|лимит*|ліміт*|limiti)', '上限', '大小', 'サイズ', '크기', '제한',
]

/** Quotas of what we send, and sizes of a message: not the quota of the mailbox. */
export const NOT_STORAGE = [
  '(anzahl|zahl|empfangerlimit|empfaengerlimit|sendelimit|nachrichtengr*|nombre|' +
    'numero|liczb*|количеств*|кількіст*|sayisi|pocet|cislo|' +
    'αριθμος|jumlah|broj)', 'so nguoi',
  '数量', '數量', '人数', '人數', '过多', '数が', '每日', '頻率', '权限', '權限',
  '长度', '長度', '수 초과', '수가', '권한',
  '(greylist*|graylist*)', 'quota (check failed|lookup|service unavailable)',
  '(ip|client|host|bandwidth|traffic|api|license*|licence*)', 'receiving (limit*|rate|quota)',
  '(connection|bounce|login|send) (limit|quota)', '(number|count|rate) of', '发送', '频率',
  '(envio|invio|envois|versand*)',
  'quota (of|for) ~ (recipients|messages|mails|bounces|connections|senders)', 'full (name|' +
    'address|hostname|domain|email|qualified)',
  '(daily|hourly|relay|relaying|outgoing|outbound|submission|rate|sending|sent|sender|' +
    'connections|sessions|throttl*|header|headers|hop|hops|attachment*|frequency|concurrent|' +
    'unauthenticated)',
  'per (hour|day|minute|second|connection|session)', 'recipients [{be}] (over|exceed*)', '(you|' +
    'you have|youve) (reached|exceeded)', 'you are over',
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
export const FULL = [
  '{holder} ~ {size} ~ {used}', '{holder} ~ {used} ~ {size}', '{size} ~ {used} ~ {holder}',
  '{used} ~ {size} ~ {holder}',
  '{holder} [{be}|has] [{now}|become|grown|too|almost] (exceed*|reached|reaches|' +
    'over|full|exhausted|used up|depleted|consumed|overflow*|overdrawn|overrun|too large|too big|' +
    'filled|overfilled)',
  '(mailboxfull|mailbox size)',
  '(mailbox|storage|inbox|space|disk) limit [{be}] ({used}|hit)', '(no|enough) room .. {holder}',
  '{holder} ~ {dont} (hold|store|take) [any] more',
  '(mailbox|inbox|account) ~ (exceeded|over|reached|at) ~ (limit|size|maximum|its limit)',
  '{holder} ~ (enough|sufficient|no|low) [free|disk|storage|mailbox|more] {size}',
  '(no|enough|sufficient) [free|disk|storage|more] {size} (in|for|on|left) ~ {holder}',
  '{holder} ~ too (much|many) ~ (data|messages|mails|emails|stored|mail)', 'too much mail data',
  '{holder} [is] at (capacity|quota)', 'mail file ~ exceed*',
  ...sayIn(({ mailbox, exceeded }) =>
    exceeded === undefined ? [] : [`(${mailbox}) ~ (${exceeded})`]),
]

/** The mailbox has no room: no limit of what is sent is meant, even if one is named. */
export const NO_ROOM = [
  '{holder} ~ (full|overfull|overquota|overfilled)', '(full|overfull) {holder}',
  '(邮箱|郵箱|信箱) (满|滿)',
  ...sayIn(({ mailbox, full, exceeded = full, room }) => [
    `(${mailbox}) ~ (${full})`,
    ...room === undefined
      ? []
      : [`(${room}) ~ (${full}|${exceeded})`, `(${exceeded}) ~ (${room})`],
  ]),
]

/** A quota, without saying whose. */
export const QUOTA = [
  '(quota|quotas|diskquota|storage limit|disk space limit) .. {used}', 'overquota',
  '{used} .. (quota|quotas|diskquota|storage limit|disk space limit)',
  'quota (error|check|violation)',
  '(disk|diskspace|userdisk|domaindisk|mailbox|user|mail|storage) quota',
]

/** The mailbox is named as the cause, and that it is not there or closed. */
export const NO_MAILBOX = [
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
  'no in name directory', 'envelope recipient has been denied',
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

/** A mailbox is said not to exist, so that nothing beside it is about the rights of who asks. */
export const NOT_THERE = [
  '(benutzer*|empfanger*|empfaenger*|postfach*) ~ existiert nicht',
  '(utilisateur*|destinataire*|boite*|compte) ~ (nexiste|n existe|existe pas|inexistant*)',
  '(usuario*|destinatario*|buzon*|casilla|cuenta) ~ (no existe|inexistente)',
  '(usuario*|utilizador*|destinatario*|caixa|conta) ~ (nao existe|inexistente)',
  '(utente|destinatario|casella|account) ~ (non esiste|inesistente)',
  '(uzytkownik*|skrzynk*|konto|adresat*|odbiorc*) ~ nie istnieje',
  '(пользовател*|ящик*|адресат*|получател*) ~ не существует',
]

/** Common words of a refusal. They count only where nothing says that it is about us. */
export const REFUSED = [
  '^ [requested] [mail] [action] [not] [taken] mailbox (unavailable|not available|name not)',
  '{mailbox} .. (unavailable|unavaiable|not available|name not allowed)',
  '^ recipient rejected $',
  'recipient [{be}] (rejected|refused|not accepted|not ok) $', 'not our (customer|user)',
  '^ (invalid|bad|unknown|illegal) {address}', 'unavailable [mail] (user|mailbox|recipient)',
  '{address} [{be}] (invalid|not valid|not known)',
  '(rejecting|rejected|refused|refusing) (recipient|recipients|rcpt|user) $', 'mailbox not accept*',
]

/** A mailbox, and anything that says that it is not there. */
export const MISSING = [
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
export const NO_MAIL = [
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
export const CHOOSY = [
  'for (outside|external|internet) [use|mail|email|senders]', '(allow|allowed|safe|white) list',
  'allowed recipient*', 'closed for posting', 'closed [mailing] (list|group)',
  // Mail from outside.
  '(extern*|ausserhalb|exterieur*|estern*|zewnetrzn*|извне|внешн*|зовнішн*|ulkois*|ulkopuol*|luar)',
  '(dis kaynak*|ben ngoai)', '外部', '外域', '陌生',
  // Rights of who asks.
  '(berechtig*|zugriff*|erlaubt|droit*|autoris*|autoriz*|permis*|acces|acceso|accesso|' +
    'uprawnien|dostep*|прав|доступ*|разреш*|авторизац*|yetki*|izin*|izni*|erisim|oikeut*|' +
    'sallit*|listalla|quyen|إذن|הרשאה|אישור|ברשימת)', 'белом списк*',
  '권한', '인증', '에게 [메시지를|메일을] 보낼 수', '릴레이', '권리', '権限', '許可', '中継', 'アクセス権', '認証',
  '权限', '权 限', '认证', 'สิทธิ์',
  '(accept|accepts|accepting|receive|receives|receiving) [only|any] {message} (from|with|that|of)',
  '(accept|accepts|accepting|want|wish*) [to receive|any] (bounces|bounce|external|outside|' +
    'unverified|internet|attachments|html|anonymous|null|such|your|this)',
  '(from|by|to) (outside|external|anonymous|unverified|authenticated|internal|the outside)',
  '{mailbox} (only|prefers|preferences|policy|rules|settings|reject|rejects)',
  '(user|recipient) (rules|filter)',
]

/** A mailbox that is there and gets more mail than it may. */
export const RATE = [
  '(trop de|zu viele|demasiad*|muitas|muitos|troppi|troppe|zbyt wiele|prilis mnoho|te veel|' +
    'слишком много|забагато|too many)', '(number|count|rate) of', 'today', '太多', '过多', '頻繁',
  'at a rate', 'receiving (mail|messages) too', 'too (quickly|many|often|fast)', 'rate limit*',
  'daily', 'frequency', 'receiving limit*', 'receiving (quota|rate)',
]

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

/** One expression of all phrases. Every part of it is bounded, so its cost grows with the text. */
export function compilePhrases (phrases: readonly string[]): RegExp {
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

/** Words of letters and digits, with single spaces between them. */
export function normalizeText (text: string): string {
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
