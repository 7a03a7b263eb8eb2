import { readFileSync } from 'node:fs'
import { canonicalPhone } from '../../services/normalize/canonical.ts'
import { describePhone } from '../../services/phone/plans.ts'
import { toRowOutcome } from '../../services/jobs/results/block.ts'
import { createNumberingPlanProvider } from '../../services/verify/providers/numbering-plan.ts'
import { loadRangeData, splitPlace } from '../../services/verify/providers/range-data.ts'
import { measure, type AccuracyRow } from './row.ts'

/** What Google's data say about a number. */
type GooglePhone = {
  readonly kind: 'example' | 'range'
  readonly e164: string
  /** ISO 3166, blank for a service of no country. */
  readonly country: string
  readonly type: string
  readonly valid: boolean
  readonly national: string
  readonly international: string
  readonly carrier: string
  readonly place: string
  readonly timezone: string
}

/** Numbers of all regions and types with what Google's data say (by phones/export.py). */
function readGooglePhones (): readonly GooglePhone[] {
  const file = new URL('phones/google.json', import.meta.url)
  const { columns, rows } = JSON.parse(readFileSync(file, 'utf8')) as
    { readonly columns: readonly string[], readonly rows: readonly (readonly unknown[])[] }
  return rows.map(row =>
    Object.fromEntries(columns.map((name, at) => [name, row[at]])) as GooglePhone)
}

/** What the ways to write a number are made of. */
type Parts = {
  readonly e164: string
  /** Calling code and national number without any prefix. */
  readonly digits: string
  readonly code: string
  readonly nsn: string
  readonly country: string | undefined
  /** As written in the country, and its digits. */
  readonly national: string
  readonly dialed: string
  readonly international: string
  /** Another valid number of the same country. */
  readonly other: string
}

const inScript = (text: string, zero: number) =>
  text.replaceAll(/\d/g, digit => String.fromCodePoint(zero + Number(digit)))
const halfInScript = (text: string, zero: number) =>
  text.slice(0, -2) + inScript(text.slice(-2), zero)
const grouped = (text: string, mark: string) => text.replaceAll(/\B(?=(?:\d{3})+$)/g, mark)
const inPairs = (text: string, mark: string) => text.replaceAll(/\B(?=(?:\d{2})+$)/g, mark)
const scientific = (digits: string, places: number) =>
  Number(digits).toExponential(places).replace('e', 'E')
const keycaps = (digits: string) => digits.replaceAll(/\d/g, digit => `${digit}\ufe0f\u20e3`)
const DEVANAGARI = 0x966
const ARABIC = 0x660
const FULL_WIDTH = 0xff10
const BOLD = 0x1d7ce

/** Ways in which spreadsheets and people write a number; each is a cell that means the number. */
const WAYS: Readonly<Record<string, (parts: Parts) => readonly string[]>> = {
  plain: ({ e164, international, national, dialed, digits }) =>
    [e164, international, national, dialed, digits],
  'floats of spreadsheets': ({ e164, international, national, dialed, digits, nsn }) =>
    [e164, international, national, dialed, digits, nsn].flatMap(text =>
      [`${text}.0`, `${text}.00`, `${text},0`, `${text},00`, ` ${text}.0 `, `"${text}.0"`]),
  'scientific notation': ({ digits, nsn, dialed }) => [digits, nsn, dialed].flatMap(text =>
    [text.length - 1, 5, 3, 8].flatMap(places =>
      [scientific(text, places), scientific(text, places).replace('.', ',')])),
  thousands: ({ digits, nsn }) => [digits, nsn].flatMap(text =>
    [',', '.', "'", ' ', '\u202f'].flatMap(mark => [
      grouped(text, mark), `${grouped(text, mark)}${mark === ',' ? '.' : ','}00`])),
  'lost zeros and plus': ({ nsn, digits }) => [nsn, digits, `'${nsn}`],
  'formulas and quotes': ({ e164, dialed, national }) => [e164, dialed, national].flatMap(text =>
    [`="${text}"`, `'${text}`, `"${text}"`, `=${text}`, `'${text}'`, `\u201c${text}\u201d`,
      `<${text}>`, `*${text}*`]),
  'invisible characters': ({ e164, national, international }) =>
    [e164, national, international].flatMap(text => [
      `\u202a${text}\u202c`, `\u200e${text}`, `\u200f${text}\u200f`, `\ufeff${text}`,
      text.replaceAll(' ', '\u00a0'), text.replaceAll(' ', '\u2009'),
      `${text.slice(0, 5)}\u200b${text.slice(5)}`, `${text.slice(0, 6)}\u00ad${text.slice(6)}`,
      `${text}\t`, `${text}\r\n`, `\u00a0${text}`,
    ]),
  separators: ({ international, national, digits, dialed }) =>
    [international, national].flatMap(text => [
      ...['-', '.', '\u2013', '\u2014', '\u2212', '_', '/', '\u00b7', '  ', ' - ', "'", '\u30fc']
        .map(mark => text.replaceAll(/[ -]+/g, mark)),
      text.replaceAll(/[ ()-]+/g, ''), text.replace(/[ -]/, '/'), text.replace(/[ -]/, ' / '),
    ]).concat(inPairs(dialed, '.'), inPairs(dialed, ' '), `+${inPairs(digits, ' ')}`,
      inPairs(dialed, '-')),
  scripts: ({ e164, national, dialed }) => [e164, national, dialed].flatMap(text =>
    [DEVANAGARI, ARABIC, FULL_WIDTH, BOLD, 0x6f0, 0xe50, 0x9e6].flatMap(zero =>
      [inScript(text, zero), halfInScript(text, zero)])).concat(keycaps(dialed)),
  'full-width signs': ({ e164, international }) => [
    e164.replace('+', '\uff0b'), e164.replace('+', '\u207a'), e164.replace('+', '\u2795'),
    international.replaceAll('-', '\uff0d').replaceAll(' ', '\u3000'),
    international.replace(/ (\S+)/, '\uff08$1\uff09')],
  marks: ({ e164, national, international, dialed }) =>
    [e164, national, international, dialed].flatMap(text => [
      `${text}\u00b2`, `${text} \u2460`, `\u2460${text}`, `\u2474 ${text}`, `${text}\u00bd`,
      `${text}\u2776`, `${text}*`, `${text} \u2020`, `${text} [1]`, `${text}[12]`, `${text} (2)`,
      `\u0031\ufe0f\u20e3 ${text}`, `${text}\u2075`, `${text}\u2460\u2461`]),
  'list numbers': ({ international, national, dialed }) =>
    [international, national, dialed].flatMap(text => [
      `1. ${text}`, `2) ${text}`, `(3) ${text}`, `4: ${text}`, `12. ${text}`, `- ${text}`,
      `\u2022 ${text}`, `# ${text}`, `5, ${text}`, `7; ${text}`, `9 | ${text}`, `[8] ${text}`]),
  extensions: ({ e164, national, international }) =>
    [e164, national, international].flatMap(text => [
      `${text} x12`, `${text}x123`, `${text} ext. 5`, `${text} ext 1234`, `${text} Ext: 77`,
      `${text} extension 12`, `${text};ext=12`, `${text} #12`, `${text},,12`, `${text},12`,
      `${text} ; 12`, `${text} Durchwahl 15`, `${text} DW 15`, `${text} (ext. 12)`,
      `${text} int. 4`,
      `${text} \u0434\u043e\u0431. 12`, `${text} anexo 12`, `${text}, ext. 9`, `${text} - x12`,
      `${text} extn 12`, `${text} Apparat 12`, `${text} poste 12`,
      `tel:${text.replaceAll(' ', '')};ext=12`,
      `${text} \u5185\u7ebf 12`, `${text} ~12`, `${text} ramal 7 (Jo)`]),
  labels: ({ e164, national, dialed }) => [e164, national, dialed].flatMap(text => [
    `Tel. ${text}`, `Tel.: ${text}`, `phone: ${text}`, `mobile ${text}`, `M ${text}`, `T:${text}`,
    `Call ${text}`, `\u260e ${text}`, `\ud83d\udcde ${text}`, `\u96fb\u8a71\uff1a${text}`,
    `p. ${text}`, `Fax (${text})`, `tel:${text.replaceAll(' ', '-')}`, `callto:${text}`,
    `\u2121 ${text}`, `Telefon privat: ${text}`, `no ${text}`, `WhatsApp ${text}`]),
  'words behind': ({ e164, national, international, dialed }) =>
    [e164, national, international, dialed].flatMap(text => [
      `${text} (home)`, `${text} privat`, `${text} Mon-Fri`, `${text} 9-5 Mon-Fri`, `${text} 24h`,
      `${text} Mo-Fr 9-17 Uhr`, `${text} / Ann`, `${text}, Ann`, `${text} CALL NOW`, `${text}h`,
      `${text}a`, `${text} (2nd floor)`, `${text} ask for Jo`, `${text} 8am`, `${text} HOME`,
      `${text} room 5`, `${text} 24/7`, `${text} (M)`, `${text}!`, `${text}?`, `${text} - work`,
      `${text} old`, `${text} 2x`, `${text} \u5bb6`]),
  prefixes: ({ code, nsn }) => ['+00', '+011', '00', '00 ', '++', '+ +', '+ ', '00+', '0+', '(+',
    '+(', '+0', '(00)', '\uff0b', '011', '011 ', '0011', '0011 ', 'plus ', '%2B', '&#43;']
    .flatMap(prefix => {
      const closing = prefix.startsWith('(+') || prefix === '+(' ? ')' : ''
      return [`${prefix}${code}${closing}${nsn}`, `${prefix}${code}${closing} ${nsn}`]
    }),
  'zero in brackets': ({ code, nsn, dialed }) => [
    `+${code} (0)${nsn}`, `+${code}(0) ${nsn}`, `00${code} (0) ${nsn}`, `+${code} (0) ${nsn}`,
    `+${code}-(0)-${nsn}`, `+${code} [0] ${nsn}`,
    ...dialed === `0${nsn}` ? [`+${code}0${nsn}`, `(+${code}) 0${nsn}`] : [],
    `(0)${nsn}`, `0${code} ${nsn}`, `+${code} +${code} ${nsn}`, `+${code} 00${code} ${nsn}`],
  'letters for digits': ({ e164, national, dialed }) => [e164, national, dialed].flatMap(text => [
    text.replaceAll('0', 'O'), text.replaceAll('1', 'l'), text.replaceAll('1', 'I'),
    text.replace('0', 'o'), text.replaceAll('5', 'S'), text.replaceAll('8', 'B')]),
  URIs: ({ e164, nsn, code, digits }) => [
    `tel:${e164}`, `tel:${nsn};phone-context=+${code}`, `TEL:${e164}`, `https://wa.me/${digits}`,
    `tel:${e164};isub=12`, `sip:${e164}@example.org`, `tel://${e164}`, `${e164}@example.org`,
    `tel:${nsn};phone-context=example.org`, `<tel:${e164}>`, `callto:${e164}`],
  'two numbers': ({ e164, national, other, dialed, international }) =>
    [e164, national, international, dialed].flatMap(text =>
      [' / ', '/', ', ', '; ', ' or ', ' oder ', ' & ', ' ', '|', ' - ', ',', ' und '].map(mark =>
        `${text}${mark}${other}`).concat(
        `${text}/21`, `${text} / 22`, `${text} ${text}`, `${text} / ${text}`, `${text},${text}`,
        `${text} or -23`)),
}

const FOREIGN = ['US', 'DE', 'BR', 'GB', 'AU', 'JP', 'FR', 'RU', 'IT', 'ZA', undefined] as const
/** Ways that name the calling code: the country of the job is another one. */
const FROM_ABROAD: Readonly<Record<string, (parts: Parts) => readonly string[]>> = {
  'international, from abroad': ({ e164, international, code, nsn }) => [
    e164, international, `${e164}.0`, `00${code}${nsn}`, `00${code} ${nsn}`, `+00${code}${nsn}`,
    `00 ${international.slice(1)}`, `011${code}${nsn}`, `+011${code}${nsn}`, `011 ${code} ${nsn}`,
    `00${code}${nsn}.0`, `++${code} ${nsn}`, `+${code} (0) ${nsn}`, `00${code} (0)${nsn}`,
    `(00${code}) ${nsn}`, `00-${code}-${nsn}`, `+ ${code} ${nsn}`, `0011${code}${nsn}`,
    `${e164} ext. 12`, `tel:${nsn};phone-context=+${code}`, `plus ${code} ${nsn}`],
}
/**
 * Digits without any sign of another country: the country of the job decides by the interface, so a
 * number of that country is no fault. Counted apart.
 */
const UNMARKED: Readonly<Record<string, (parts: Parts) => readonly string[]>> = {
  'without plus, from abroad': ({ digits, code, nsn }) =>
    [digits, `${code} ${nsn}`, `${digits}.0`, `${code}-${nsn}`],
}

function partsOf (phone: GooglePhone, others: readonly GooglePhone[]): Parts {
  const { e164, country, national, international } = phone
  const code = describePhone(e164)?.callingCode ?? ''
  const same = others.filter(it => it.country === country && it.valid && it.e164 !== e164)
  return {
    e164,
    digits: e164.slice(1),
    code,
    nsn: e164.slice(code.length + 1),
    country: country === '' ? undefined : country,
    national,
    dialed: national.replaceAll(/\D/g, ''),
    international,
    other: same[e164.length % Math.max(1, same.length)]?.national ?? national,
  }
}

type Suite = Readonly<Record<string, (parts: Parts) => readonly string[]>>
/** Wrong cases that are shown. */
const MAX_CASES = 20

/**
 * Cells as spreadsheets and people write valid numbers, by what was meant. `right`: the number;
 * `wrong`: another valid number; neither: no number, or one that is not assigned.
 */
export function measureCells (numbers: number): readonly AccuracyRow[] {
  const phones = readGooglePhones().filter(({ valid }) => valid)
  const step = Math.max(1, Math.floor(phones.length / numbers))
  const parts = phones.filter((_, index) => index % step === 0)
    .map(phone => partsOf(phone, phones))
  const atHome = (of: Parts) => [of.country]
  const abroad = (of: Parts) => FOREIGN.filter(country => country !== of.country)
  return [
    ...measureSuite(WAYS, parts, atHome), ...measureSuite(FROM_ABROAD, parts, abroad),
    ...measureSuite(UNMARKED, parts, abroad),
  ]
}

function measureSuite (
  suite: Suite, numbers: readonly Parts[],
  countries: (parts: Parts) => readonly (string | undefined)[]
): readonly AccuracyRow[] {
  return Object.entries(suite).map(([part, write]) => {
    let [total, right, wrong] = [0, 0, 0]
    const cases: string[] = []
    for (const parts of numbers) {
      for (const country of countries(parts)) {
        for (const text of new Set(write(parts))) {
          const outcome = read(text, country)
          total++
          if (outcome === parts.e164) right++
          else if (outcome.startsWith('+')) {
            wrong++
            if (cases.length < MAX_CASES) {
              cases.push(`${JSON.stringify(text)} in ${country}: ${outcome}, not ${parts.e164}`)
            }
          }
        }
      }
    }
    return {
      suite: 'phone cells', part, total, right, wrong, missed: total - right - wrong, cases,
    }
  })
}

/** The number of a cell if it is assigned, otherwise why there is none. */
function read (text: string, country: string | undefined): string {
  const result = canonicalPhone(text, country)
  if (!result.ok) return result.reason
  return describePhone(result.canonical)?.type === undefined ? 'unassigned' : result.canonical
}

/** What Google's data say of a number that our columns have too, as we write it. */
const FACTS: Readonly<Record<string, {
  readonly google: (phone: GooglePhone) => string
  readonly ours: (columns: Readonly<Record<string, string>>) => string
}>> = {
  number: { google: ({ e164 }) => e164, ours: ({ canonical = '' }) => canonical },
  'valid or not': {
    google: ({ valid }) => valid ? 'valid' : 'invalid', ours: ({ status = '' }) => status,
  },
  country: { google: ({ country }) => country, ours: ({ country = '' }) => country },
  type: {
    google: ({ type }) => type === 'FIXED_LINE' ? 'landline' : type.toLowerCase(),
    ours: ({ line_type: type = '' }) => type,
  },
  carrier: { google: ({ carrier }) => carrier, ours: ({ carrier = '' }) => carrier },
  place: {
    google: ({ place, e164 }) => {
      const { locality, region } = splitPlace(place, e164.startsWith('+1') ? '1' : '')
      return [locality, region].filter(Boolean).join(', ')
    },
    ours: ({ locality = '', region = '' }) => [locality, region].filter(Boolean).join(', '),
  },
  timezone: { google: ({ timezone }) => timezone, ours: ({ timezone = '' }) => timezone },
}

type Compared = {
  readonly phone: GooglePhone
  readonly columns: Readonly<Record<string, string>>
}

/**
 * Google's example numbers of all regions and types, and numbers of random last digits, through the
 * reader and the numbering plan.
 */
export async function measureNumbers (): Promise<readonly AccuracyRow[]> {
  const provider = createNumberingPlanProvider(loadRangeData())
  const options = {
    service: 'phone-validation',
    mode: 'live',
    signal: new AbortController().signal,
    deadlineMs: Infinity,
  } as const
  const read = await Promise.all(readGooglePhones().map(async (phone): Promise<Compared> => {
    const result = canonicalPhone(phone.e164, undefined)
    // A number of impossible length is invalid before a provider sees it.
    if (!result.ok) {
      const canonical = phone.valid ? result.reason : phone.e164
      const { country } = phone
      return { phone, columns: { canonical, status: 'invalid', line_type: 'unknown', country } }
    }
    const { canonical } = result
    const [answer] = await provider.check([{ row: 0, canonical }], options)
    const { status, fields, contact } = toRowOutcome(
      { ...answer!.verdict, checkedAtMs: 0 },
      { service: 'phone-validation', canonical, copies: 0 },
      { source: 'live', freshnessMs: 0 })
    const columns = { ...fields, ...contact, canonical, status }
    return { phone, columns: columns as Readonly<Record<string, string>> }
  }))
  const kinds = ['example', 'range'] as const
  return kinds.flatMap(kind => Object.entries(FACTS).map(([part, { google, ours }]) => {
    const compared = read.filter(({ phone }) => phone.kind === kind)
    const suite = kind === 'example' ? 'phone examples' : 'phone ranges'
    return measure({ suite, part }, compared, ({ phone, columns }) => {
      const [ourText, googleText] = [ours(columns), google(phone)]
      // Where Google has no place we show the name of the country.
      const isRight = ourText === googleText || (part === 'place' && phone.place === '')
      return isRight
        ? { is: 'right' }
        : { is: 'wrong', case: `${phone.e164}: ${ourText}, Google says ${googleText}` }
    })
  }))
}
