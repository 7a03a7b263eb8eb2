import type { RouteOptions } from 'fastify'
import { COUNTRY_CODES } from '../../../schemas/api/country.ts'
import { MAX_CONTACT_CHARACTERS } from '../../../schemas/api/create-job.ts'
import {
  type FilePreviewBody, FilePreviewSchema, PREVIEW_ROWS, PREVIEW_SHEETS,
} from '../../../schemas/api/file.ts'
import {
  BlankLines, DELIMITERS, foldedName, isArchive, MAX_COLUMNS,
} from '../../../schemas/files/csv-format.ts'
import {
  type CsvReadOptions, type FileRecord, findColumn, type LineNames, LINES_OF_TEXT, noRows,
  POSITION, ROWS_OF_SHEET, scanCsv, scanSheet, sheetOfText, tooManyColumns, type WorkbookReading,
} from '../file.ts'
import { type ContactKind, SERVICE_DEFINITIONS } from '../../jobs/results/columns.ts'
import { isAssigned, parsePhone, readCell } from '../../phone/cell.ts'
import { matchCountry, type SplitNumber } from '../../phone/plans.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../../topology.ts'
import type { LargeBody } from '../body.ts'
import type { Settings } from '../config.ts'
import { ApiException } from '../errors.ts'
import { requireCaller } from '../guard.ts'
import { requireService } from './create-job.ts'

/** What is chosen for a file whose service is not named, first. */
const PREFERRED: readonly ServiceSlug[] = ['phone-validation', 'email-validation']

/** POST /api/v1/file-previews: what a file has, from its first lines; nothing is kept of it. */
export function createFilePreviewRoute (settings: Settings, largeBody: LargeBody): RouteOptions {
  return {
    method: 'POST',
    url: '/api/v1/file-previews',
    config: {
      scope: 'jobs:write',
      takesFile: 'preview',
      errors: ['unknown_service', 'invalid_file'],
      records: null,
      sample: {
        curl: ['-F file=@contacts.csv'],
        client: () => [
          "const file = Buffer.from('name,phone\\nAnn,+12127365000\\n')",
          'const { column, service, reason } = await client.previewFile(file)',
          'console.log(column, service, reason)',
        ],
      },
    },
    schema: {
      operationId: 'previewFile',
      summary: 'See which contacts a file has',
      description: 'Reads the first 1,000 lines of a CSV file or a workbook, and says in which ' +
        'column the contacts are, which service takes them, and why. Of numbers without a ' +
        'country code it says which country fits them best. It creates no job, costs nothing, ' +
        'and nothing of the file is kept. The first lines of a file are enough.',
      tags: ['Quotes'],
      response: { 200: FilePreviewSchema },
    },
    ...largeBody,
    handler: async (request, reply) => {
      const { previewed } = request
      if (previewed === undefined) throw new ApiException({ code: 'unsupported_media_type' })
      const { service: name } = request.body as { readonly service?: string }
      const service = name === undefined ? undefined : requireService(name)
      const { mode } = requireCaller(request)
      const services = [...PREFERRED, ...SERVICE_SLUGS]
        .filter(name => mode === 'test' || settings.checks.has(name))
      const { bytes, csv, reading } = previewed
      return reply.send(await previewFile(bytes, { ...csv, service, services }, reading))
    },
  }
}

/** What the request says of the file, and the services that it may use, the preferred first. */
type PreviewOptions = CsvReadOptions & {
  readonly service?: ServiceSlug | undefined
  readonly services: readonly ServiceSlug[]
}

/** A column that may have the contacts. */
type Candidate = {
  /** Position from 0. */
  readonly at: number
  readonly kind: ContactKind
  /** Cells that are not blank, and those of them that look like contacts. */
  readonly filled: number
  readonly matching: number
  /** Whether its name is a usual one. */
  readonly isNamed: boolean
}

/** The lines of a table below its header; without a header it has no names. */
type Table = {
  readonly names: readonly string[] | undefined
  readonly width: number
  readonly rows: readonly (readonly string[])[]
}

const KINDS: readonly ContactKind[] = ['phone', 'email']
const NOUNS: Readonly<Record<ContactKind, string>> = {
  phone: 'phone numbers', email: 'e-mail addresses',
}
const MAX_CANDIDATES = 20
const SHOWN_NAMES = 5
const SHOWN_NAME_CHARACTERS = 60
const USUAL_NAMES: Readonly<Record<ContactKind, RegExp>> = {
  phone: /^(contact|input|cell|msisdn|number|whatsapp|telegram|tel)$|phone|mobile?|telefon|handy/,
  email: /^(contact|input)$|e-?mail|^mail$/,
}
/** Names the first dot that can divide a domain, so that it is never tried with another one. */
const EMAIL_PATTERN = /^[^\s@]+@[^\s@][^\s@.]*\.[^\s@]+$/
const PHONE_PATTERN = /^\+?[\d\s().\-/]+$/
const DATE_PATTERN = /^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}\b/
const PHONE_DIGITS = { min: 7, max: 15 }
/** Real lists contain typing errors. */
const MIN_MATCHING_SHARE = 0.6

/**
 * Reads the first lines of a CSV file or a workbook, and finds the column with the contacts, the
 * service for them, and the country of numbers that have no country code.
 * @throws ApiException as a job with the file does, as far as these lines show.
 */
async function previewFile (
  bytes: Buffer, options: PreviewOptions, reading: WorkbookReading
): Promise<FilePreviewBody> {
  const lines = new FirstLines(isArchive(bytes) ? ROWS_OF_SHEET : LINES_OF_TEXT)
  const form = await scan(bytes, options, reading, lines)
  const { pause } = reading
  const { service, services, column } = options
  const kinds = service === undefined ? KINDS : [SERVICE_DEFINITIONS[service].kind]
  const table = lines.table(options)
  const chooseService = (kind: ContactKind) => service ??
    services.find(slug => SERVICE_DEFINITIONS[slug].kind === kind)
  const all = (await findColumns(table, kinds, pause))
    .filter(({ kind }) => chooseService(kind) !== undefined)
  const named = column === undefined
    ? undefined
    : findColumn(table.names ?? table.rows[0] ?? [], options)
  const chosen = chooseColumn(table, all, { named, kinds })
  const only = chosen.column
  return {
    column: only === undefined ? null : only.at + 1,
    service: only === undefined ? null : chooseService(only.kind) ?? null,
    reason: chosen.reason,
    header: table.names !== undefined,
    columns: [...columnNames(table)],
    rows: table.rows.length,
    ...form,
    candidates: all.slice(0, MAX_CANDIDATES).map(({ at, kind, filled, matching }) =>
      ({ column: at + 1, service: chooseService(kind) ?? '', kind, filled, matching })),
    country: only?.kind === 'phone' ? await previewCountry(table, only.at, pause) : null,
  }
}

/** Reads the first lines of a CSV file or a sheet; returns what is known of its form. */
async function scan (
  bytes: Buffer, { delimiter, sheet }: CsvReadOptions, reading: WorkbookReading, lines: FirstLines
): Promise<Pick<FilePreviewBody, 'delimiter' | 'sheet' | 'sheets'>> {
  const onRecord = (record: FileRecord) => lines.add(record)
  if (isArchive(bytes)) {
    const facts = await scanSheet(
      bytes, { delimiter, sheet, maxRows: PREVIEW_ROWS + 1 }, reading, onRecord)
    return { delimiter: null, sheet: facts.sheet, sheets: facts.sheets.slice(0, PREVIEW_SHEETS) }
  }
  if (sheet !== undefined) throw sheetOfText()
  const detected = await scanCsv(bytes, delimiter, { pause: reading.pause, onRecord })
  const names = Object.keys(DELIMITERS) as (keyof typeof DELIMITERS)[]
  const name = names.find(name => DELIMITERS[name] === detected) ?? null
  return { delimiter: name, sheet: null, sheets: [] }
}

/** Collects the first lines of a table, as a job reads them. */
class FirstLines {
  readonly #names: LineNames
  readonly #blankLines = new BlankLines()
  readonly #lines: (readonly string[])[] = []

  constructor (names: LineNames) {
    this.#names = names
  }

  /** False once there are enough lines. */
  add (record: FileRecord): boolean {
    const blankRows = this.#blankLines.rowsBefore(record)
    if (blankRows === undefined || record.kind === 'blank') return true
    const { cells, line } = record
    if (this.#lines.length === 0 && cells.length > MAX_COLUMNS) {
      throw tooManyColumns(cells.length, this.#names.at(line))
    }
    for (let row = 0; row < Math.min(blankRows, PREVIEW_ROWS); row++) this.#lines.push([])
    // Cells beyond the first line are in no column, and may be very many.
    return this.#lines.push(cells.slice(0, this.#lines[0]?.length)) <= PREVIEW_ROWS
  }

  /** @throws ApiException if there is no line. */
  table ({ header, column }: CsvReadOptions): Table {
    const [first = [], ...rest] = this.#lines
    const isName = column !== undefined && !POSITION.test(column)
    const hasHeader = header ?? (isName || !first.some(mayBeRow))
    const rows = (hasHeader ? rest : this.#lines).slice(0, PREVIEW_ROWS)
    if (this.#lines.length === 0) throw noRows(false)
    return { names: hasHeader ? first : undefined, width: first.length, rows }
  }
}

/** A first line names the columns unless it has a contact. */
const mayBeRow = (cell: string) => KINDS.some(kind => looksLike(kind, cell))

/** Whether a cell could be a contact. Distinguishes columns only; it does not verify anything. */
function looksLike (kind: ContactKind, text: string): boolean {
  // A longer cell is no contact, and could take a pattern long.
  if (text.length > MAX_CONTACT_CHARACTERS) return false
  const cell = text.trim()
  if (kind === 'email') return EMAIL_PATTERN.test(cell)
  const digits = cell.replace(/\D/g, '').length
  return PHONE_PATTERN.test(cell) && !DATE_PATTERN.test(cell) &&
    digits >= PHONE_DIGITS.min && digits <= PHONE_DIGITS.max
}

/**
 * The columns that may have contacts of these kinds, the best first: by cells and name, by cells,
 * by name. Awaits `pause` before each column.
 */
async function findColumns (
  { names, width, rows }: Table, kinds: readonly ContactKind[], pause: () => Promise<void>
): Promise<readonly Candidate[]> {
  const candidates: Candidate[] = []
  for (let at = 0; at < width; at++) {
    await pause()
    const cells = rows.map(row => row[at] ?? '').filter(cell => cell.trim() !== '')
    for (const kind of kinds) {
      const matching = cells.filter(cell => looksLike(kind, cell)).length
      const isNamed = USUAL_NAMES[kind].test(foldedName(names?.[at] ?? ''))
      const candidate = { at, kind, filled: cells.length, matching, isNamed }
      if (rank(candidate) > 0) candidates.push(candidate)
    }
  }
  return candidates.toSorted((one, other) =>
    rank(other) - rank(one) || other.matching - one.matching)
}

function rank ({ filled, matching, isNamed }: Candidate): number {
  const hasContacts = filled > 0 && matching >= MIN_MATCHING_SHARE * filled
  return (hasContacts ? 2 : 0) + (isNamed ? 1 : 0)
}

const columnNames = ({ names, width }: Table): readonly string[] =>
  names ?? Array.from({ length: width }, (_, at) => `column_${at + 1}`)

type Wanted = { readonly named: number | undefined, readonly kinds: readonly ContactKind[] }

/** The column with the contacts, or why there is none. */
function chooseColumn (
  table: Table, all: readonly Candidate[], { named, kinds }: Wanted
): { readonly column?: Candidate, readonly reason: string } {
  const names = columnNames(table)
  const title = (at: number) =>
    JSON.stringify((names[at] ?? '').slice(0, SHOWN_NAME_CHARACTERS) || `#${at + 1}`)
  const some = named === undefined ? all : all.filter(({ at }) => at === named)
  const [column] = some
  // Only a single one can be chosen: not one of several that are as good.
  const best = some.filter(other => column !== undefined && rank(other) === rank(column))
  if (column !== undefined && best.length === 1) {
    const { at, kind, filled, matching, isNamed } = column
    const share = `${number(matching)} of ${number(filled)} cells look like ${NOUNS[kind]}`
    const reason = matching === 0
      ? `Column ${title(at)} is named as one of ${NOUNS[kind]} is.`
      : `Column ${title(at)}: ${share}${isNamed ? ', and it is named so' : ''}.`
    return { column, reason }
  }
  const columns = new Set(best.map(({ at }) => at))
  if (columns.size > 1) {
    const listed = [...columns].slice(0, SHOWN_NAMES).map(title).join(', ')
    const what = [...new Set(best.map(({ kind }) => NOUNS[kind]))].join(' and of ')
    return { reason: `Several columns may be meant, of ${what}: ${listed}.` }
  }
  const [kind] = kinds
  const at = named ?? (table.width === 1 ? 0 : undefined)
  if (at !== undefined && kind !== undefined && kinds.length === 1) {
    const how = named === undefined ? 'the only one' : 'named'
    const reason = `Column ${title(at)} is ${how}, but few of its cells look like ${NOUNS[kind]}.`
    return { column: { at, kind, filled: 0, matching: 0, isNamed: false }, reason }
  }
  const where = at === undefined ? 'No column looks' : `Column ${title(at)} does not clearly look`
  return { reason: `${where} like ${kinds.map(kind => NOUNS[kind]).join(' or ')}.` }
}

const number = (value: number) => value.toLocaleString('en-US')

async function previewCountry (
  { rows }: Table, at: number, pause: () => Promise<void>
): Promise<FilePreviewBody['country']> {
  const cells = rows.map(row => row[at] ?? '').filter(cell => looksLike('phone', cell))
  const { count, country, share } = await findNationalNumbers(cells, pause)
  if (count === 0) return null
  const guess = country === undefined
    ? 'No numbering plan fits most of them.'
    : `${Math.floor(100 * share)} % of them fit the numbering plan of ${countryName(country)}.`
  return {
    numbers: count,
    guess: country ?? null,
    matching: Math.round(100 * share) / 100,
    reason: `${number(count)} of ${number(cells.length)} numbers have no country code. ${guess}`,
  }
}

const REGIONS = new Intl.DisplayNames('en', { type: 'region' })
const countryName = (country: string) => REGIONS.of(country) ?? country

/** Phone numbers that only their country completes, and the country that fits them best. */
type NationalNumbers = {
  readonly count: number
  /** ISO 3166; undefined if no plan fits most of them. */
  readonly country: string | undefined
  /** The share of the numbers that are assigned in that country, from 0 to 1. */
  readonly share: number
}

/** Numbers whose plan is tried in every country, and in those that fit best. */
const FIRST_SAMPLE = 24
const SAMPLE = 120
const MIN_SHARE = 0.6
/** Of the best share: countries with less are no candidates. */
const NEAR = 0.8
/** Numbers that show how many of all numbers a plan has. */
const PROBES = 50
const CELLS_PER_STEP = 50
/** A longer cell has more than a number, and would take long in every country. */
const MAX_NUMBER_CHARACTERS = 40

/**
 * Finds the numbers without a country code among cells that look like phone numbers, and their
 * country by numbering plan: that of most numbers with a country code, if most others are assigned
 * there too; else the one that has the most of them, or of several the one whose plan has the
 * fewest numbers beside. Awaits `pause` between steps of a few milliseconds.
 */
async function findNationalNumbers (
  cells: readonly string[], pause: () => Promise<void>
): Promise<NationalNumbers> {
  const national: string[] = []
  const international = new Map<string, number>()
  for (const [index, cell] of cells.entries()) {
    if (index % CELLS_PER_STEP === 0) await pause()
    const number = readNumber(cell, undefined)
    if (isAssigned(number)) {
      const country = findCountry(number) ?? ''
      international.set(country, (international.get(country) ?? 0) + 1)
    } else if (!cell.includes('+')) national.push(cell)
  }
  const count = national.length
  if (count === 0) return { count, country: undefined, share: 0 }
  const sample = spread(national.filter(cell => cell.length <= MAX_NUMBER_CHARACTERS), SAMPLE)
  if (sample.length === 0) return { count, country: undefined, share: 0 }
  const [[usual] = ['']] = [...international].toSorted(([, one], [, other]) => other - one)
  const [share = 0] = (await shares([usual], sample, pause)).values()
  if (share >= MIN_SHARE) return { count, country: usual, share }
  return { count, ...await findBest(sample, pause) }
}

/** The country whose plan fits numbers best; the share is 0 without one. */
async function findBest (
  sample: readonly string[], pause: () => Promise<void>
): Promise<Pick<NationalNumbers, 'country' | 'share'>> {
  const first = nearest(await shares(COUNTRY_CODES, spread(sample, FIRST_SAMPLE), pause))
  const shareByCountry = await shares(first, sample, pause)
  const evidence = new Map<string, number>()
  for (const country of nearest(shareByCountry)) {
    await pause()
    evidence.set(country, evidenceFor(country, spread(sample, PROBES)))
  }
  const [[country] = ['']] = [...evidence].toSorted(([, one], [, other]) => other - one)
  const share = shareByCountry.get(country) ?? 0
  return { country: share >= MIN_SHARE ? country : undefined, share }
}

/** At most so many items, evenly spread. */
function spread (items: readonly string[], most: number): readonly string[] {
  if (items.length <= most) return items
  return Array.from({ length: most }, (_, at) =>
    items[Math.floor(at * items.length / most)] as string)
}

/** The share of numbers that each country has. */
async function shares (
  countries: readonly string[], numbers: readonly string[], pause: () => Promise<void>
): Promise<ReadonlyMap<string, number>> {
  const shareByCountry = new Map<string, number>()
  for (const country of countries) {
    await pause()
    const matching = numbers.filter(number => isAssignedIn(number, country))
    shareByCountry.set(country, matching.length / numbers.length)
  }
  return shareByCountry
}

function nearest (shareByCountry: ReadonlyMap<string, number>): readonly string[] {
  const best = Math.max(...shareByCountry.values())
  if (best === 0) return []
  return [...shareByCountry].flatMap(([country, share]) => share >= NEAR * best ? [country] : [])
}

/** The number that a cell has for somebody in a country; undefined if it has none. */
function readNumber (cell: string, country: string | undefined): SplitNumber | undefined {
  const usual = parsePhone(cell, country)
  if (usual !== undefined) return usual
  const reading = readCell(cell, country)
  return 'fault' in reading ? undefined : reading.number
}

function findCountry ({ callingCode, national }: SplitNumber): string | undefined {
  return matchCountry(callingCode, national).country
}

/** Whether a cell is an assigned number of a country for somebody who dials it there. */
function isAssignedIn (cell: string, country: string): boolean {
  const number = readNumber(cell, country)
  return number !== undefined && isAssigned(number) && findCountry(number) === country
}

/** What a number that a country does not have counts, beside at most 2.3 for one that it has. */
const MISS = 2
/** Other numbers that are tried for each number. */
const CHANGES = 9

/**
 * How unlikely it is that numbers are of a country by chance: fewer of the numbers with other
 * digits in some places are, the fewer numbers its plan has.
 */
function evidenceFor (country: string, sample: readonly string[]): number {
  let sum = 0
  for (const cell of sample) {
    if (!isAssignedIn(cell, country)) {
      sum -= MISS
      continue
    }
    let kept = 0
    for (let shift = 1; shift <= CHANGES; shift++) {
      let place = shift
      // Zeros stay, since they are prefixes.
      const changed = cell.replaceAll(/\d/g, digit => {
        place += 1
        return place % 3 === 0 && digit !== '0' ? String((Number(digit) + shift) % 10) : digit
      })
      if (isAssignedIn(changed, country)) kept += 1
    }
    sum += Math.log((1 + CHANGES) / (1 + kept))
  }
  return sum
}
