import { mkdtempSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readWorkbook } from '../../schemas/files/workbook.ts'
import { detectDialect, readRecords } from '../../services/client/csv.ts'
import { openInput } from '../../services/client/files.ts'
import { accepts, codingFor, preferred } from '../../services/ingest/response.ts'
import { inspectJson } from '../../services/ingest/json-text.ts'
import { createCsv, createOriginalJson, csvHeader } from '../../services/jobs/results/csv.ts'
import { readTable } from '../../services/verify/providers/http-answer.ts'
import {
  builtInLists, ENTRY_OF, readList,
} from '../../services/verify/providers/email-lists.ts'
import { createMailDomains } from '../../services/verify/providers/mail-domains.ts'
import { SenderPolicies } from '../../services/verify/providers/sender-policies.ts'
import { spfPolicy } from '../../services/verify/mailboxes/spf.ts'
import { ReplyReader } from '../../services/verify/mailboxes/replies.ts'
import { endedJob } from '../support/clickhouse/results.ts'
import {
  type FileOptions, parseUpload, previewUpload, readFile,
} from '../support/parse-upload.ts'
import { workbookOf } from '../support/workbooks.ts'
import { zipOf } from '../support/zip.ts'

const noPause = async () => {}

/** Bytes of a shape of about this size. */
type Shape = (size: number) => string

/** A parser of foreign bytes with the shapes that are the worst for it. */
export type ForeignParser = {
  readonly name: string
  /** The result, whose texts are counted; it may throw, which ends the parsing as well. */
  readonly parse: (bytes: Buffer) => unknown
  readonly shapes: Readonly<Record<string, Shape>>
  /** Characters of the result for a byte, where the interface promises more than 8. */
  readonly growth?: number
  /** Steps for a byte, if a library takes more than 60. */
  readonly stepsPerByte?: number
}

const load = createRequire(import.meta.url)
const KafkaDecoder = load('kafkajs/src/protocol/decoder')
const KafkaEncoder = load('kafkajs/src/protocol/encoder')
const decodeRecord = load('kafkajs/src/protocol/recordBatch/record/v0/decoder')

const fill = (unit: string): Shape => size =>
  unit.repeat(Math.ceil(size / unit.length)).slice(0, Math.max(size, unit.length))
const after = (start: string, unit: string, end = ''): Shape => size =>
  start + fill(unit)(size) + end
/** Takes all columns that a file may have, with short names. */
const WIDE = `${Array.from({ length: 500 }, (_, at) => `c${at}`).join(',')}\n`

const CSV_SHAPES: Readonly<Record<string, Shape>> = {
  'a wide header and short rows': after(WIDE, '1\n'),
  'a wide header and blank rows': after(WIDE, '\n', '1'),
  'rows with many blank cells': after(WIDE, `1${','.repeat(499)}\n`),
  'more cells than the header has': after('a\n', '1,,,,,,,,,\n'),
  'blank lines before the first row': after('', '\n', '1234567'),
  'blank lines at the end': after('1234567', '\n'),
  'blank lines with CRLF': after('1234567\n', '\r\n', '1'),
  'blank lines of CR': after('1234567\r', '\r', '1'),
  'quoted blank lines': after('1234567\n', '""\n'),
  'rows of one character': fill('1\n'),
  'a line without an end': fill('1'),
  'an open quote': after('a\n"', '1\n'),
  'quotes within quoted cells': fill('"a"b,'),
  'a long cell before quotes within cells': size =>
    `a\n"${'x'.repeat(Math.min(size, 60_000))}"\n${fill('"a"b\n')(size)}`,
  'doubled quotes': after('a\n"', '""'),
  'quotes and nothing else': fill('"'),
  'delimiters and nothing else': fill(','),
  'many delimiters': fill(',;|\t'),
  'lines of quoted line breaks': fill('"\n\n\n"\n'),
  'carriage returns before line ends': fill('\r\r\r\r\n'),
  'a delimiter by its line': after('sep=;\r\n', '"1;'),
  'characters of four bytes': fill('\u{1f600}\n'),
}

const BOUNDARY = 'b'.repeat(60)
const PART = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="`
const FORM_SHAPES: Readonly<Record<string, Shape>> = {
  'parts without a header': fill(`--${BOUNDARY}\r\n\r\n\r\n`),
  'parts with an open header': fill(`--${BOUNDARY}\r\na\r\n`),
  'fields of one name': fill(`${PART}a"\r\n\r\n1\r\n`),
  'files of one name': fill(`${PART}file"; filename="a"\r\n\r\n1\r\n`),
  'a preamble': fill('a'),
  'a preamble of line breaks': fill('\r\n'),
  'an epilogue': after(`${PART}a"\r\n\r\n1\r\n--${BOUNDARY}--`, 'a'),
  'boundaries that are cut': after(`${PART}file"; filename="a"\r\n\r\n`,
    `\r\n--${BOUNDARY.slice(1)}`),
  'dashes and line breaks': after(`${PART}file"; filename="a"\r\n\r\n`, '\r\n--'),
  'a header without an end': after(`--${BOUNDARY}\r\n`, 'a: b\r\n'),
  'a folded header': after(`--${BOUNDARY}\r\na: b`, '\r\n c'),
  'a long name': after(PART, '\\"'),
  'parameters of a header': after(PART, '"; a="'),
  'a long field': after(`${PART}a"\r\n\r\n`, '1'),
  'a file': after(`${PART}file"; filename="a"\r\n\r\n`, '1\n'),
}

const JSON_SHAPES: Readonly<Record<string, Shape>> = {
  'lists in lists': fill('['),
  'objects in objects': fill('{"a":'),
  'many items': after('{"inputs":[', '1,'),
  'many texts': after('{"inputs":[', '"",'),
  'many names': size => `{${Array.from({ length: size / 8 }, (_, at) => `"a${at}":1`).join(',')}}`,
  'one name many times': after('{', '"a":1,'),
  'a long name': after('{"', 'a'),
  backslashes: after('{"inputs":["', '\\'),
  'backslashes before quotes': after('{"inputs":["', '\\\\\\"'),
  'escaped quotes': after('{"inputs":["', '\\"'),
  'white space': fill(' \n'),
  'texts and white space': after('{"inputs":[', '"a"          ,'),
  commas: fill(','),
  'closing brackets': fill(']}'),
}

const LINE_SHAPES: Readonly<Record<string, Shape>> = {
  'short rows': fill('1\n'),
  'blank rows': fill('\n'),
  'rows of quoted cells': fill('"a""b","",\n'),
  'rows of commas': fill(`${','.repeat(499)}\n`),
  formulas: fill('=1;=2;-3,@a\n'),
  'a quote that is never closed': after('"', 'a,'),
  'quotes and nothing else': fill('"'),
}

const SHEET_SHAPES: Readonly<Record<string, Shape>> = {
  'rows and nothing else': after('<worksheet><sheetData>', '<row>'),
  'empty rows': after('<worksheet><sheetData>', '<row/>', '</sheetData></worksheet>'),
  'empty cells': after('<worksheet><sheetData><row>', '<c/>', '</row></sheetData></worksheet>'),
  'one cell many times': after('<worksheet><sheetData><row>', '<c r="A1"><v>1</v></c>'),
  'elements in elements': after('<worksheet>', '<a>'),
  attributes: size =>
    `<worksheet ${Array.from({ length: size / 8 }, (_, at) => `a${at}=""`).join(' ')}>`,
  'a long attribute': after('<worksheet a="', 'a'),
  'a long text': after('<worksheet><sheetData><row><c><v>', '1'),
  'a comment': after('<worksheet><!--', '-'),
  'a section of characters': after('<worksheet><![CDATA[', ']'),
  entities: after('<worksheet>', '&amp;'),
  'a document type': after('<!DOCTYPE a [', '<!ENTITY a "&a;">'),
  'open angle brackets': fill('<'),
  'references to one long text': after('<worksheet><sheetData><row>', '<c t="s"><v>0</v></c>',
    '</row></sheetData></worksheet>'),
  'numbers with a format': after('<worksheet><sheetData><row>', '<c s="1"><v>1.5</v></c>',
    '</row></sheetData></worksheet>'),
}
const STRING_SHAPES: Readonly<Record<string, Shape>> = {
  'short texts': after('<sst>', '<si><t>a</t></si>', '</sst>'),
  'empty texts': after('<sst>', '<si/>', '</sst>'),
  'pieces of one text': after('<sst><si>', '<r><t>a</t></r>', '</si></sst>'),
  'characters by their numbers': after('<sst><si><t>', '_x0041_', '</t></si></sst>'),
  'how texts are read': after('<sst><si>', '<rPh><t>a</t></rPh>', '</si></sst>'),
}
const STYLE_SHAPES: Readonly<Record<string, Shape>> = {
  formats: size => `<styleSheet><numFmts>${Array.from({ length: size / 48 }, (_, at) =>
    `<numFmt numFmtId="${at}" formatCode="0.0"/>`).join('')}</numFmts></styleSheet>`,
  styles: after('<styleSheet><cellXfs>', '<xf numFmtId="1"/>', '</cellXfs></styleSheet>'),
  'a long format': size => '<styleSheet><numFmts>' +
    `<numFmt numFmtId="9" formatCode="${fill('[a]_0')(size)}"/></numFmts></styleSheet>`,
}
/** A workbook with bytes in place of one of its parts; its cells are the result. */
const workbookWith = (part: string) => async (bytes: Buffer) => {
  const rows: (readonly string[])[] = []
  const workbook = workbookOf({
    rows: '<row><c t="s" s="0"><v>0</v></c></row>',
    strings: '<si><t>a</t></si>',
    styles: [14, 4],
    more: { [part]: bytes },
  })
  await readWorkbook(workbook, { maxInflatedBytes: 1e9, pause: noPause },
    ({ cells }) => { rows.push(cells) })
  return rows
}
/** Reads far more rows than a call has, so that the rows do not end the reading. */
const TABLE = {
  columns: new Set(['a', 'c1']), maxRows: 1_000_000, signal: new AbortController().signal,
}

const names = Array.from({ length: 500 }, (_, at) => `column ${at}`)
/** A chunk of rows without results, whose references are the lines. */
const mergedLines = (bytes: Buffer) => {
  const references = bytes.toString().split('\n')
  const rows = references.length
  const noBlock = new Int32Array(rows).fill(-1)
  const merged = {
    firstRow: 0,
    rows,
    inputs: [],
    blocks: [],
    blockOf: noBlock,
    positionOf: noBlock,
    duplicateOf: new Int32Array(rows),
    contacts: { offsets: [], references },
  }
  return { merged, repeated: new Map() }
}
const csvWith = (options: FileOptions) => (bytes: Buffer) => readFile(bytes, options)
const folder = mkdtempSync(join(tmpdir(), 'foreign-bytes-'))

export const FOREIGN_PARSERS: readonly ForeignParser[] = [
  { name: 'a file', parse: csvWith({ column: '1' }), shapes: CSV_SHAPES },
  {
    name: 'a file without a header, by its delimiter',
    parse: csvWith({ column: '1', header: false, delimiter: '\t' }),
    shapes: CSV_SHAPES,
  },
  {
    name: 'the column of a file',
    parse: csvWith({ column: 'phone' }),
    shapes: {
      'names that are equal': after('', 'phone,'),
      'names that differ in case': after('', 'Phone,PHONE,'),
      'long names': after('', `${'n'.repeat(120)},`),
      'names of quotes': after('', '"""",'),
      'names of white space': after('', '          ,'),
    },
  },
  {
    name: 'a form',
    parse: async bytes => await parseUpload(`multipart/form-data; boundary=${BOUNDARY}`, bytes),
    shapes: FORM_SHAPES,
  },
  {
    name: 'the options of a file',
    parse: async bytes => await parseUpload('text/csv', Buffer.from('+12127365000'),
      { query: bytes.toString(), takesFile: 'contacts' }),
    shapes: {
      'one option': fill('column=1&'),
      'many options': fill('&a'),
      labels: size => Array.from({ length: size / 16 }, (_, at) => `metadata[a${at}]=1`).join('&'),
      brackets: after('metadata[', ']['),
      'percent signs': after('column=', '%41%'),
    },
  },
  { name: 'a body of JSON', parse: bytes => inspectJson(bytes.toString()), shapes: JSON_SHAPES },
  {
    name: 'a header of a request',
    parse: bytes => {
      const header = bytes.toString()
      return [accepts(header, 'text/csv'), preferred(header, ['text/csv']), codingFor(header)]
    },
    shapes: {
      'many types': fill('text/csv;q=0.1,'),
      parameters: after('text/csv', ';q=1'),
      commas: fill(','),
      'white space': after('text/csv', ' '),
    },
  },
  {
    name: 'a joined line as CSV',
    parse: bytes => {
      const chunk = mergedLines(bytes)
      const csvOf = createCsv(endedJob(), { columns: [], original: names, safe: true })
      const pieces: Buffer[] = []
      for (let row = 0; row < chunk.merged.rows;) {
        const { lines, nextRow } = csvOf(chunk, row)
        pieces.push(lines)
        row = nextRow
      }
      return Buffer.concat(pieces).toString()
    },
    shapes: LINE_SHAPES,
    growth: 600,
  },
  {
    name: 'a joined line as JSON',
    parse: bytes => bytes.toString().split('\n').map(createOriginalJson(names.slice(0, 20))),
    shapes: LINE_SHAPES,
    growth: 400,
  },
  {
    name: 'the header of a joined file',
    parse: bytes => csvHeader(endedJob(), {
      original: bytes.toString().split(','), safe: true, columns: ['status', 'phone', 'row'],
    }),
    shapes: {
      'names of ours': fill('status,phone,'),
      'names with our prefix': size => Array.from({ length: Math.sqrt(size / 5) }, (_, at) =>
        `${'verified_'.repeat(at)}status`).join(','),
      'blank names': fill(','),
    },
  },
  {
    name: 'a file of the client',
    parse: async bytes => {
      const path = join(folder, 'contacts.csv')
      writeFileSync(path, bytes)
      const dialect = detectDialect(bytes.subarray(0, 65_536))
      const file = openInput(path)
      let cells = 0
      for await (const record of readRecords(file, dialect, { from: 0, to: bytes.length })) {
        cells += record.cells.length
      }
      file.close()
      return cells
    },
    shapes: { ...CSV_SHAPES, 'carriage returns': fill('1\r\r\r') },
  },
  {
    name: 'the preview of a file',
    parse: async bytes => await previewUpload(bytes),
    shapes: {
      ...CSV_SHAPES,
      'addresses that are none': fill('@.@.@.@'),
      'long addresses': after('a@', 'a.'),
      'digits and signs': fill('+1 (2) 3-4/'),
      dates: fill('1234-12-12,'),
      'white space': fill(' '),
    },
  },
  {
    name: 'the country of national numbers',
    parse: async bytes => await previewUpload(
      bytes, { service: 'phone-validation', column: '1', header: false }),
    shapes: {
      numbers: fill('(030) 901-8200\n'),
      'short numbers': fill('9018200\n'),
      'digits and dots': fill('(0.3.0.9.0.1.8.2.0.0\n'),
      'signs around digits': fill(`${'('.repeat(150)}9018200${')'.repeat(150)}\n`),
    },
    // However many there are, some are tried in the plan of every country.
    stepsPerByte: 200,
  },
  {
    name: 'replies of a mail server',
    parse: bytes => {
      const reader = new ReplyReader()
      let replies = 0
      for (let at = 0; at < bytes.length; at += 4_096) {
        replies += reader.push(bytes.subarray(at, at + 4_096)).length
      }
      return replies
    },
    shapes: {
      'many replies': fill('250 ok\r\n'),
      'many lines': fill('250-ok\r\n'),
      'short lines': fill('250\n'),
      'a line without an end': after('250 ', 'a'),
      'carriage returns': after('250 ', '\r'),
      'line ends': fill('\n'),
      codes: fill('550 5.1.1 '),
    },
  },
  {
    name: 'a table of a vendor',
    parse: bytes => readTable(bytes, TABLE),
    shapes: CSV_SHAPES,
    stepsPerByte: 150,
  },
  {
    name: 'a sheet of a workbook',
    parse: workbookWith('xl/worksheets/s0.xml'),
    shapes: SHEET_SHAPES,
    stepsPerByte: 120,
  },
  {
    name: 'the texts of a workbook',
    parse: workbookWith('xl/sharedStrings.xml'),
    shapes: STRING_SHAPES,
    stepsPerByte: 120,
  },
  {
    name: 'the styles of a workbook',
    parse: workbookWith('xl/styles.xml'),
    shapes: STYLE_SHAPES,
    stepsPerByte: 120,
  },
  {
    name: 'the list of sheets of a workbook',
    parse: workbookWith('xl/workbook.xml'),
    shapes: { sheets: after('<workbook><sheets>', '<sheet name="a" r:id="rId1"/>') },
    stepsPerByte: 120,
  },
  {
    name: 'an archive of a vendor',
    parse: bytes => readTable(bytes, TABLE),
    shapes: {
      'many files': size => zipOf(Object.fromEntries(
        Array.from({ length: size / 80 }, (_, at) => [`${at}.csv`, 'a']))).toString('latin1'),
      'a directory that is cut': size => `PK\x03\x04${fill('PK\x01\x02')(size)}`,
      'ends of archives': size => `PK\x03\x04${fill('PK\x05\x06')(size)}`,
    },
  },
  {
    name: 'answers of the DNS',
    parse: async bytes => {
      const hosts = bytes.toString().split(' ')
      const records = hosts.map((host, at) => ({ host, preference: hosts.length - at }))
      const domains = createMailDomains({
        root: async () => ({ kind: 'found', records: ['a.root-servers.net'] }),
        mailExchanges: async () => ({ kind: 'found', records }),
        addresses: async () => ({ kind: 'found', records: hosts }),
        texts: async () => ({ kind: 'none' }),
      }, {
        keepMs: 60_000,
        keepNegativeMs: 5_000,
        maxDomains: 10,
        lists: () => builtInLists,
        isReachable: () => true,
      })
      return await domains.hosts('example.com', 'a')
    },
    shapes: {
      'many hosts': size =>
        Array.from({ length: size / 16 }, (_, at) => `mx${at}.example.com`).join(' '),
      'one host many times': fill('mx.example.com '),
      'hosts without a name': fill('. '),
      'a long name': fill('a.'),
    },
  },
  {
    name: 'the SPF record of a mail domain',
    parse: async bytes => await spfPolicy('x.org', async () => [`v=spf1 ${bytes.toString()}`]),
    shapes: {
      'open macros': fill('%{'),
      'a name': fill('include:a.'),
      'many networks': fill('ip4:192.0.2.1 '),
      'a long word': fill('a'),
      'a redirect': size => `redirect=${fill('a.')(size)}b`,
    },
  },
  {
    name: 'the DMARC record of a mail domain',
    parse: async bytes => {
      const records = [bytes.toString()]
      const policies = new SenderPolicies(
        async () => ({ kind: 'found', records }),
        { isAvailable: async () => true, keepMs: 9, keepNegativeMs: 9, maxDomains: 9 })
      await policies.find(['x.org'], 'a')
      return policies.known('x.org')
    },
    shapes: {
      'spaces before the version': size => `v=${fill(' ')(size)}`,
      'many tags': size => `v=DMARC1;${fill('p=none;')(size)}`,
      'many signs': size => `v=DMARC1;${fill('=')(size)}`,
    },
  },
  {
    name: 'the headers of a Kafka message',
    parse: bytes => {
      const headers = String(bytes).split(' ').map(name =>
        new KafkaEncoder().writeVarIntString(name).writeVarIntBytes(Buffer.of(1)))
      const { buffer } = new KafkaEncoder().writeInt8(0).writeVarLong(0).writeVarInt(0)
        .writeVarIntBytes(null).writeVarIntBytes(null).writeVarIntArray(headers)
      return decodeRecord(new KafkaDecoder(buffer), { firstOffset: '0', firstTimestamp: '0' })
    },
    shapes: {
      'many names': size => Array.from({ length: size / 6 }, (_, at) => `h${at}`).join(' '),
      'one name many times': fill('h '),
    },
  },
  ...(['disposable', 'roles'] as const).map(list => ({
    name: `a list of LISTS_DIR: ${list}`,
    parse: async (bytes: Buffer) => {
      const entries = new Set<string>()
      const pieces = async function * () {
        for (let at = 0; at < bytes.length; at += 4_096) yield bytes.subarray(at, at + 4_096)
      }
      await readList(pieces(), ENTRY_OF[list], entries)
      return [...entries]
    },
    shapes: {
      domains: (size: number) =>
        Array.from({ length: size / 16 }, (_, at) => `mail${at}.example\n`).join(''),
      words: (size: number) => Array.from({ length: size / 8 }, (_, at) => `role${at}\n`).join(''),
      'one entry many times': fill('a.org\n'),
      'names in other scripts': fill('b\u00fccher.example\n'),
      'characters that become many': fill('\ufdfa\n'),
      'long names': fill(`${'a'.repeat(60)}.${'b'.repeat(60)}.org\n`),
      'labels that end in a hyphen': fill(`${'a'.repeat(60)}-.org\n`),
      'short lines': fill('\n'),
      comments: fill('#\n'),
      'a line without an end': fill('a'),
      'dots and nothing else': fill('.'),
      'carriage returns': fill('\r'),
      'bytes that are no text': fill('\u0000\u001b'),
    },
  })),
]
