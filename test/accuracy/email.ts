import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { canonicalEmail } from '../../services/normalize/canonical.ts'
import { suggestDomain } from '../../services/verify/providers/domain-typos.ts'
import { builtInLists } from '../../services/verify/providers/email-lists.ts'
import { COMMON_PROVIDERS } from '../../services/verify/providers/built-in-lists.ts'
import { measure, type AccuracyRow } from './row.ts'

const read = (name: string) => readFileSync(new URL(`data/${name}`, import.meta.url), 'utf8')
const json = (name: string): unknown => JSON.parse(read(name))

/** How many providers the typos are generated from, the most common ones. */
const TYPO_PROVIDERS = 72

/** The figures of everything that is decided about an e-mail address without a network. */
export function measureEmail (): readonly AccuracyRow[] {
  return [
    ...syntaxRows(), ...typoRows(), ...realDomainRows(), ...disposableRows(), ...freeRows(),
    ...roleRows(),
  ]
}

/**
 * One address of a suite. `valid` is what the suite says, or our policy where `policy` names one
 * (POLICIES in `policies.ts`).
 */
type SyntaxCase = {
  readonly suite: string
  readonly address: string
  readonly valid: boolean
  readonly policy?: string
}

function syntaxRows (): readonly AccuracyRow[] {
  const cases = read('email-syntax.jsonl').trim().split('\n')
    .map(line => JSON.parse(line) as SyntaxCase)
  return [...Map.groupBy(cases, ({ suite }) => suite)].map(([suite, some]) =>
    measure({ suite: 'e-mail syntax', part: suite }, some, ({ address, valid }) => {
      const outcome = canonicalEmail(address)
      if (outcome.ok === valid) return { is: 'right' }
      // An address that works and is called invalid is worse than the reverse.
      return { is: valid === true ? 'wrong' : 'missed', case: `${address}: ${outcome.ok}` }
    }))
}

const NEIGHBORS = new Map([
  'qwertyuiop', 'asdfghjkl', 'zxcvbnm',
].flatMap(row => [...row].map((key, at) => [key, [row[at - 1], row[at + 1]]] as const)))

const ENDINGS: Readonly<Record<string, readonly string[]>> = {
  com: ['con', 'cmo', 'co', 'cm', 'om', 'vom', 'xom', 'comm', 'cim', 'ocm', 'coom', 'cpm'],
  net: ['ner', 'nte', 'nett', 'ent', 'ne'],
  de: ['dee', 'd'],
  fr: ['frr', 'f'],
}

/** The slips that people make most: a letter missing, doubled, swapped or beside the right one. */
function * slipsOf (domain: string): Generator<readonly [kind: string, typo: string]> {
  const dot = domain.indexOf('.')
  const [name, ending] = [domain.slice(0, dot), domain.slice(dot + 1)]
  for (let at = 0; at < name.length; at++) {
    const [before, letter, after] = [name.slice(0, at), name[at]!, name.slice(at + 1)]
    yield ['a missing letter', `${before}${after}.${ending}`]
    yield ['a doubled letter', `${before}${letter}${letter}${after}.${ending}`]
    const next = after[0]
    if (next !== undefined && next !== letter) {
      yield ['swapped letters', `${before}${next}${letter}${after.slice(1)}.${ending}`]
    }
    for (const neighbor of NEIGHBORS.get(letter) ?? []) {
      if (neighbor !== undefined) yield ['a key beside', `${before}${neighbor}${after}.${ending}`]
    }
  }
  for (const typo of ENDINGS[ending] ?? []) yield ['another ending', `${name}.${typo}`]
}

function typoRows (): readonly AccuracyRow[] {
  const real = new Set(COMMON_PROVIDERS)
  const isDomain = (text: string) => canonicalEmail(`jane@${text}`).ok && !real.has(text)
  const slips = COMMON_PROVIDERS.slice(0, TYPO_PROVIDERS).flatMap(domain =>
    [...slipsOf(domain)].filter(([, typo]) => isDomain(typo))
      .map(([kind, typo]) => ({ kind, typo, domain })))
  const generated = [...Map.groupBy(slips, ({ kind }) => kind)].map(([kind, some]) =>
    measure({ suite: 'typos', part: kind }, some, ({ typo, domain }) => {
      const suggestion = suggestDomain(typo)
      if (suggestion === domain) return { is: 'right' }
      return { is: suggestion === undefined ? 'missed' : 'wrong', case: `${typo}: ${suggestion}` }
    }))
  return [...generated, measure({ suite: 'typos', part: 'mailcheck' }, MAILCHECK, ([typo, want]) =>
    suggestDomain(typo) === want
      ? { is: 'right' }
      : { is: want === undefined ? 'wrong' : 'missed', case: `${typo}: ${suggestDomain(typo)}` })]
}

/** From the specification of mailcheck 1.1.1 (MIT), for the domains that it is about. */
const MAILCHECK: readonly (readonly [typo: string, want: string | undefined])[] = [
  ['gmail.co', 'gmail.com'], ['gmailc.om', 'gmail.com'], ['gmail.con', 'gmail.com'],
  ['gnail.con', 'gmail.com'], ['comcast.nry', 'comcast.net'], ['homail.con', 'hotmail.com'],
  ['hotmail.co', 'hotmail.com'], ['yajoo.com', 'yahoo.com'], ['yahooo.cmo', 'yahoo.com'],
  ['randomsmallcompany.cmo', 'randomsmallcompany.com'], ['con-artists.con', 'con-artists.com'],
  ['emaildomain.con', 'emaildomain.com'], ['kicksend.com', undefined],
  ['mail.randomsmallcompany.cmo', undefined], ['yahoo.co.uk', undefined], ['gmx.fr', undefined],
]

type MailServices = { readonly legitimate: readonly string[], readonly free: readonly string[] }
const mailServices = json('mail-services.json') as MailServices

/** Domains that exist and must never be corrected; real typos that somebody runs are no such. */
function realDomainRows (): readonly AccuracyRow[] {
  const { domains } = json('top-sites.json') as { readonly domains: readonly string[] }
  const countries = ['hotmail.lt', 'hotmail.rs', 'yahoo.lt', 'yahoo.ee', 'yahoo.rs', 'yahoo.com.hr']
  return Object.entries({
    'top sites': domains,
    'mail services': mailServices.legitimate.filter(domain => domain !== 'hotmailr.com'),
    'providers in other countries': countries,
  }).map(([part, some]) => measure({ suite: 'real domains', part }, some, domain => {
    const suggestion = suggestDomain(domain)
    return suggestion === undefined
      ? { is: 'right' }
      : { is: 'wrong', case: `${domain}: ${suggestion}` }
  }))
}

type FakeFilter = {
  /** When the list was made, in seconds. */
  readonly t: number
  readonly domains: Readonly<Record<string, { readonly lastseen: number }>>
}

const ALIVE_SECONDS = 90 * 86_400

function disposableRows (): readonly AccuracyRow[] {
  const list = createRequire(import.meta.url)('fakefilter/json/data.json') as FakeFilter
  const alive = Object.entries(list.domains)
    .filter(([, { lastseen }]) => lastseen > list.t - ALIVE_SECONDS).map(([domain]) => domain)
  const shared = ['jane.mooo.com', 'jane.us.to', 'jane.chickenkiller.com', 'jane.eu.org']
  return [
    measure({ suite: 'disposable', part: 'observed in the last 90 days' }, alive, domain =>
      builtInLists.lookUp(domain).disposable ? { is: 'right' } : { is: 'missed', case: domain }),
    measure({ suite: 'disposable', part: 'legitimate hosts' },
      [...mailServices.legitimate, ...shared], domain =>
        builtInLists.lookUp(domain).disposable ? { is: 'wrong', case: domain } : { is: 'right' }),
  ]
}

function freeRows (): readonly AccuracyRow[] {
  const { domains } = json('top-sites.json') as { readonly domains: readonly string[] }
  const companies = domains
    .filter(domain => !MAILBOX_SITES.has(domain) && !domain.endsWith('.google.com'))
  return [
    measure({ suite: 'free', part: 'common providers' }, COMMON_MAILBOXES, domain =>
      builtInLists.lookUp(domain).free ? { is: 'right' } : { is: 'missed', case: domain }),
    measure({ suite: 'free', part: 'sites without mailboxes' }, companies, domain =>
      builtInLists.lookUp(domain).free ? { is: 'wrong', case: domain } : { is: 'right' }),
  ]
}

/** Sites of the list that are known for their mailboxes too. */
const MAILBOX_SITES: ReadonlySet<string> = new Set(`
  gmail.com google.com mail.ru yahoo.com yahoo.co.jp msn.com live.com aol.com qq.com outlook.com
  icloud.com naver.com yandex.com yandex.ru rambler.ru uol.com.br globo.com ig.com.br terra.com.br
  sapo.pt t-online.de indiatimes.com excite.co.jp about.com detik.com vk.com weibo.com hotmail.com
  facebook.com sakura.ne.jp go.com ukr.net mac.com me.com web.de libero.it orange.fr free.fr
  laposte.net wanadoo.fr
`.trim().split(/\s+/))

const COMMON_MAILBOXES: readonly string[] = `
  gmail.com yahoo.com hotmail.com outlook.com live.com msn.com icloud.com me.com mac.com aol.com
  aim.com gmx.com gmx.net gmx.de gmx.at gmx.ch web.de t-online.de freenet.de arcor.de mail.de
  posteo.de mailbox.org tutanota.com tutanota.de tutamail.com tuta.com tuta.io keemail.me
  protonmail.com proton.me pm.me hey.com fastmail.com fastmail.fm hushmail.com mailfence.com
  startmail.com runbox.com zoho.com zoho.eu zohomail.com yandex.ru yandex.com ya.ru mail.ru bk.ru
  list.ru inbox.ru rambler.ru ukr.net i.ua seznam.cz centrum.cz wp.pl o2.pl onet.pl interia.pl
  abv.bg freemail.hu libero.it virgilio.it tiscali.it alice.it tin.it orange.fr wanadoo.fr free.fr
  laposte.net sfr.fr bbox.fr terra.es yahoo.es yahoo.fr yahoo.de yahoo.it yahoo.co.uk yahoo.ca
  yahoo.cl yahoo.com.ar yahoo.com.br yahoo.com.mx yahoo.co.in yahoo.co.jp yahoo.ne.jp yahoo.com.tw
  uol.com.br bol.com.br terra.com.br globo.com ig.com.br r7.com sapo.pt btinternet.com sky.com
  talktalk.net virginmedia.com comcast.net verizon.net att.net sbcglobal.net bellsouth.net cox.net
  charter.net earthlink.net optonline.net juno.com netzero.net rogers.com shaw.ca sympatico.ca
  telus.net bigpond.com optusnet.com.au iinet.net.au qq.com foxmail.com 163.com 126.com yeah.net
  sina.com sohu.com naver.com daum.net hanmail.net nate.com rediffmail.com docomo.ne.jp
  ezweb.ne.jp mail.com email.com inbox.lv walla.co.il mynet.com online.no bluewin.ch telenet.be
  skynet.be ziggo.nl planet.nl kpnmail.nl otenet.gr
`.trim().split(/\s+/)

/** Addresses of functions, as registers and imprints of organizations print them. */
const FUNCTIONS: Readonly<Record<string, string>> = {
  'RFC 2142': 'info marketing sales support abuse noc security postmaster hostmaster usenet news ' +
    'webmaster www uucp ftp',
  English: 'contact office admin billing hr jobs careers press accounts accounting helpdesk ' +
    'customer.service orders reservations booking reception legal privacy no-reply purchasing',
  German: 'vertrieb verkauf einkauf buchhaltung rechnung personal bewerbung kontakt datenschutz ' +
    'kundenservice geschaeftsfuehrung sekretariat zentrale empfang presse bestellung versand',
  French: 'accueil contact ventes achats comptabilite facturation recrutement rh direction ' +
    'serviceclient commandes reservations mairie secretariat communication',
  Spanish: 'ventas compras contabilidad facturacion rrhh administracion atencionalcliente ' +
    'soporte informacion pedidos reservas recepcion gerencia prensa',
  Italian: 'vendite acquisti amministrazione contabilita fatturazione segreteria assistenza ' +
    'ordini ufficiostampa commerciale prenotazioni direzione informazioni',
  Portuguese: 'vendas compras financeiro faturamento atendimento suporte contato rh diretoria ' +
    'secretaria comercial ouvidoria pedidos reservas',
  Dutch: 'verkoop inkoop boekhouding administratie klantenservice receptie secretariaat directie ' +
    'vacatures bestellingen facturen personeelszaken',
  Polish: 'sprzedaz zakupy ksiegowosc biuro sekretariat kadry rekrutacja zamowienia serwis pomoc ' +
    'faktury reklamacje',
  Swedish: 'forsaljning inkop ekonomi kundtjanst reception personal faktura order bokning',
  Norwegian: 'post firmapost salg innkjop regnskap kundeservice resepsjon faktura personvern',
  Danish: 'salg indkob bogholderi regnskab kundeservice faktura ordre kontor',
  Finnish: 'myynti osto laskutus asiakaspalvelu toimisto vastaanotto rekrytointi tietosuoja',
  Czech: 'prodej nakup ucetni obchod objednavky podatelna recepce reklamace podpora fakturace',
  Hungarian: 'ertekesites beszerzes konyveles szamlazas ugyfelszolgalat iroda titkarsag rendeles',
  Romanian: 'vanzari achizitii contabilitate facturare comenzi suport resurseumane rezervari',
  Turkish: 'satis satinalma muhasebe fatura bilgi iletisim destek insankaynaklari siparis',
  Russian: 'продажи закупки бухгалтерия кадры приемная секретарь заказ поддержка buhgalteria',
  Japanese: '営業 総務 人事 経理 広報 採用 お問い合わせ 予約 eigyo soumu jinji',
  Chinese: '客服 销售 财务 人事 招聘 市场 采购 技术支持 kefu xiaoshou caiwu zhaopin',
  Korean: '문의 고객센터 영업 인사 채용 총무 회계 홍보 예약 주문',
}

/** Words that are roles far more often than they are anybody's surname; see policies.ts. */
const ARGUED: ReadonlySet<string> = new Set([
  'sales', 'root', 'post', 'board', 'list', 'press', 'people', 'job', 'staff', 'seo',
])

type CensusNames = { readonly first: string, readonly last: string }

function roleRows (): readonly AccuracyRow[] {
  const { first, last } = json('census-names.json') as CensusNames
  const names = [...new Set(`${first} ${last}`.split(' '))].filter(name => !ARGUED.has(name))
  return [
    ...Object.entries(FUNCTIONS).map(([part, text]) =>
      measure({ suite: 'roles', part }, text.split(' '), local =>
        builtInLists.isRole(local, 'firma.example')
          ? { is: 'right' }
          : { is: 'missed', case: local })),
    measure({ suite: 'roles', part: 'names of the US census' }, names, name =>
      builtInLists.isRole(name, 'firma.example') ? { is: 'wrong', case: name } : { is: 'right' }),
    measure({ suite: 'roles', part: 'places and full names' }, PEOPLE, local =>
      builtInLists.isRole(local, 'firma.example') ? { is: 'wrong', case: local } : { is: 'right' }),
  ]
}

const PEOPLE: readonly string[] = `
  sydney alexa paris india china berlin london boston denver chicago jordan georgia dallas austin
  florence madison brooklyn chelsea kenya asia africa milan roma vienna jane.doe jdoe j.doe
  maria.garcia hans.mueller jean-pierre.dupont yuki.tanaka li.wei will.page mark.price grant.bills
  emily.post franz.list elihu.root jonathan.press steve.jobs frank.sales
`.trim().split(/\s+/)
