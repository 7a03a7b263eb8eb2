import { pipeline } from 'node:stream/promises'
import { Busboy, type BusboyEvents, type BusboyInstance } from '@fastify/busboy'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type ApiError, ApiException, SHOWN_CHARACTERS } from '../errors.ts'
import { detachBuffer } from '../../runtime/crypto/seal.ts'
import { eventLoop } from '../../runtime/platform/event-loop.ts'
import { SMALL_BODY_BYTES } from '../../runtime/platform/peer-guards.ts'
import {
  type CsvFile, type CsvReadOptions, readCsv, readListFile, readSheet, type WorkbookReading,
} from './read-file.ts'
import {
  FileOptionsSchema, PreviewOptionsSchema, WORKBOOK_TYPE,
} from '../../../schemas/api/file.ts'
import { DELIMITERS, isArchive } from '../../../schemas/files/csv-format.ts'

type FileForm = { readonly file: Buffer, readonly entries: OptionEntries }

/** The name of the part with the file. */
const FILE = 'file'
/** More than any valid form has; the largest field is `webhook_url`. */
const LIMITS = {
  fieldNameSize: 200, fieldSize: 8_192, fields: 100, parts: 102, headerPairs: 20, headerSize: 4_096,
}

/** Parsing it takes at most a few milliseconds, even if it has thousands of parts. */
const SLICE_BYTES = 16_384

/**
 * Reads a body of `multipart/form-data`: one part named `file`, and fields. Feeds it to the parser
 * in slices, awaits `pause` before each, and stops at the first violation.
 * @throws ApiException if it is damaged or cut, has no file or two, or too many or too long fields.
 */
async function readForm (
  body: Buffer, contentType: string, pause: () => Promise<void>
): Promise<FileForm> {
  const files: Buffer[][] = []
  const entries: (readonly [string, string])[] = []
  let fault: ApiError | undefined
  const reject = (error: ApiError) => { fault ??= error }
  const form = openForm(contentType)
  const addFile: BusboyEvents['file'] = (name, stream) => {
    const pieces: Buffer[] = []
    // A part that ends too early fails the form as well.
    stream.on('error', () => {})
    stream.on('data', (piece: Buffer) => { pieces.push(piece) })
    const param = (name ?? '').slice(0, SHOWN_CHARACTERS)
    const message = `The part ${param} is a file. Name the file "${FILE}".`
    if (name !== FILE) reject({ code: 'invalid_file', param, message })
    else if (files.push(pieces) > 1) reject(fileCountError(files.length))
  }
  const addField = (...[name, value, , isTruncated]: Parameters<BusboyEvents['field']>) => {
    const param = (name ?? '').slice(0, SHOWN_CHARACTERS)
    const most = LIMITS.fieldSize.toLocaleString('en-US')
    const message = `${param} is too long. It can have at most ${most} bytes.`
    if (isTruncated) reject({ code: 'invalid_file', param, message })
    else entries.push([name ?? '', value])
  }
  form.on('file', addFile).on('field', addField)
  for (const limit of ['partsLimit', 'fieldsLimit'] as const) {
    form.on(limit, () => reject({
      code: 'invalid_file', message: `The form has more than ${LIMITS.fields} fields.`,
    }))
  }
  async function * slices () {
    for (let from = 0; from < body.length; from += SLICE_BYTES) {
      await pause()
      if (fault !== undefined) throw new ApiException(fault)
      yield body.subarray(from, from + SLICE_BYTES)
    }
  }
  try {
    await pipeline(slices, form)
  } catch {
    throw new ApiException(fault ?? DAMAGED)
  }
  if (fault !== undefined) throw new ApiException(fault)
  const [file] = files
  if (file === undefined) throw new ApiException(fileCountError(0))
  return { file: Buffer.concat(file), entries }
}

const DAMAGED: ApiError = {
  code: 'invalid_file',
  message: 'The body is not a complete form of multipart/form-data. Send its boundary in ' +
    'Content-Type, and all of its parts.',
}

function openForm (contentType: string): BusboyInstance {
  try {
    return new Busboy({
      headers: { 'content-type': contentType },
      limits: LIMITS,
      // Clients that are generated from the description send the file without a name of its own.
      isPartAFile: (name, _type, fileName) => name === FILE || fileName !== undefined,
    })
  } catch {
    throw new ApiException(DAMAGED)
  }
}

function fileCountError (count: number): ApiError {
  return {
    code: 'invalid_file',
    param: FILE,
    message: count === 0
      ? 'The form has no part named file. Send the file as one, for example: -F file=@contacts.csv'
      : `The form has ${count} files. Send one job for each.`,
  }
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The body may be a file as well, is one of entries of contact lists, or one to look at. */
    readonly takesFile?: 'contacts' | 'entries' | 'preview'
  }
  interface FastifyRequest {
    /** The file of the request; undefined for a body of JSON. */
    file: CsvFile | undefined
    /** The bytes of a file to look at, and how to read them. */
    previewed: PreviewedFile | undefined
    /** Grows the memory that the request has reserved; false if there is none. */
    growMemory: (bytes: number) => boolean
  }
}

/**
 * Accepts a CSV file or a workbook (.xlsx) as body of routes that take contacts: as `text/csv` or
 * the type of workbooks with its options in the query, or as a part of `multipart/form-data`. Which
 * it is, its bytes say. The parsed body is that of the equivalent JSON request, so it is validated
 * and fingerprinted as such. Entries of contact lists are CSV, in a form too, whose parsed body is
 * a `ListFile`.
 */
export function acceptFiles (app: FastifyInstance): void {
  app.decorateRequest('file', undefined)
  app.decorateRequest('previewed', undefined)
  app.decorateRequest('growMemory', () => true)
  const options = { parseAs: 'buffer' } as const
  app.addContentTypeParser(['text/csv', WORKBOOK_TYPE], options, async (
    request: FastifyRequest, body: Buffer
  ) => {
    const pause = pausesOf(request, body)
    if (request.routeOptions.config.takesFile === 'entries') {
      const file = await readListFile(body, pause)
      detachBuffer(body)
      return file
    }
    requireFileRoute(request)
    return await parsed(request, body, { form: [], pause })
  })
  app.addContentTypeParser('multipart/form-data', options, async (
    request: FastifyRequest, body: Buffer
  ) => {
    const isList = request.routeOptions.config.takesFile === 'entries'
    if (!isList) requireFileRoute(request)
    const pause = pausesOf(request, body)
    const { file, entries } = await readForm(body, request.headers['content-type'] ?? '', pause)
    detachBuffer(body)
    if (isList) {
      const [field] = entries
      if (field === undefined) return await readListFile(file, pause)
      throw optionError(field[0], 'is no field of this form. Send the file only, and action in ' +
        'the query.')
    }
    return await parsed(request, file, { form: entries, pause })
  })
  app.addHook('preValidation', async request => {
    if (request.routeOptions.config.takesFile !== 'contacts') return
    const isJson = request.file === undefined
    const { fields } = readFileOptions(request, [], isJson)
    // Also what the body replaces is validated, so that no invalid option is ever accepted.
    request.query = fields
    if (isJson && isObject(request.body)) {
      request.body = { ...fields, ...request.body }
    }
  })
}

function requireFileRoute (request: FastifyRequest): void {
  const { takesFile } = request.routeOptions.config
  if (takesFile === 'contacts' || takesFile === 'preview') return
  throw new ApiException({ code: 'unsupported_media_type' })
}

const isObject = (body: unknown): body is object =>
  typeof body === 'object' && body !== null && !Array.isArray(body)

type Pause = () => Promise<void>

/** Waits for the next slot of the event loop, shared fairly with other tenants. */
function pausesOf ({ caller }: FastifyRequest, body: Buffer): Pause {
  const lane = body.length <= SMALL_BODY_BYTES ? 'small' : 'bulk'
  return () => eventLoop.yield(lane, caller?.tenant)
}

/** A file that is read by its route. */
type PreviewedFile = {
  readonly bytes: Buffer
  readonly csv: CsvReadOptions
  readonly reading: WorkbookReading
}

/** The equivalent JSON body. The bytes of the file of a job are freed. */
async function parsed (
  request: FastifyRequest, bytes: Buffer,
  { form, pause }: { readonly form: OptionEntries, readonly pause: Pause }
): Promise<object> {
  const { csv, fields } = readFileOptions(request, form)
  const reading = {
    pause,
    // A workbook takes memory beside its own bytes.
    reserve: (more: number) => {
      if (request.growMemory(bytes.length + more)) return
      throw new ApiException({ code: 'temporarily_unavailable' })
    },
  }
  if (request.routeOptions.config.takesFile === 'preview') {
    request.previewed = { bytes, csv, reading }
    return fields
  }
  const file = isArchive(bytes)
    ? await readSheet(bytes, csv, reading)
    : await readCsv(bytes, csv, pause)
  detachBuffer(bytes)
  request.file = file
  return { ...fields, inputs: file.inputs }
}

/** Names and values of options, in the order of the request. */
type OptionEntries = readonly (readonly [name: string, value: string])[]

/** What a request with a file says beside it. */
type FileRequest = {
  readonly csv: CsvReadOptions
  /** The fields of the equivalent JSON body without `inputs`, not validated. */
  readonly fields: Readonly<Record<string, unknown>>
}

type FileUse = 'contacts' | 'preview'

const NAMES: Readonly<Record<FileUse, ReadonlySet<string>>> = {
  contacts: new Set(Object.keys(FileOptionsSchema.properties)),
  preview: new Set(Object.keys(PreviewOptionsSchema.properties)),
}
/** The option that is a list. */
const LIST = 'options'
const LABEL = /^metadata\[(.*)\]$/s
/** A map, because an object also has members like `toString`. */
const BOOLEANS: ReadonlyMap<string, boolean> = new Map([['true', true], ['false', false]])

/**
 * Reads the options of a request: those in the query, and in place of them what the form says. An
 * empty field of a form counts as left out, as forms send one for each field.
 * Beside JSON, what is no option has always been ignored.
 * @throws ApiException for an option that is unknown, sent twice in one place or not valid.
 */
function readFileOptions (
  request: FastifyRequest, form: OptionEntries = [], isJson = false
): FileRequest {
  const use = request.routeOptions.config.takesFile === 'preview' ? 'preview' : 'contacts'
  const isLabel = ([name]: readonly [string, string]) => LABEL.test(name)
  const [, search = ''] = request.url.split('?')
  const query = [...new URLSearchParams(search)]
    .filter(([name]) => !isJson || isOption(name, NAMES[use]))
  // In a form a list may also be a field for each item, as OpenAPI has it.
  const items = form.filter(([name]) => name === LIST).map(([, value]) => value)
  const others = form.filter(([name]) => name !== LIST)
  const fields: OptionEntries = items.length > 0 ? [...others, [LIST, items.join(',')]] : form
  checkNames(query, NAMES[use])
  checkNames(fields, NAMES[use])
  const entries = [...query, ...fields.filter(entry => entry[1] !== '' || isLabel(entry))]
  const labels = Object.fromEntries(entries.filter(isLabel)
    .map(([name, value]) => [LABEL.exec(name)?.[1] ?? '', value]))
  const {
    column, header, delimiter, sheet, forceFresh, sample, options, deadline, ...texts
  } = Object.fromEntries(entries.filter(entry => !isLabel(entry)))
  return {
    csv: {
      column: column === '' ? undefined : column,
      header: headerOf(header),
      delimiter: delimiterOf(delimiter),
      sheet: sheet === '' ? undefined : sheet,
    },
    fields: {
      ...texts,
      ...forceFresh === undefined ? {} : { forceFresh: BOOLEANS.get(forceFresh) ?? forceFresh },
      ...options === undefined ? {} : { options: options === '' ? [] : options.split(',') },
      ...sample === undefined ? {} : { sample: BOOLEANS.get(sample) ?? sample },
      ...deadline === undefined ? {} : { deadline: numberOf(deadline) },
      ...Object.keys(labels).length === 0 ? {} : { metadata: labels },
    },
  }
}

function isOption (name: string, allowed: ReadonlySet<string>): boolean {
  const label = LABEL.exec(name)?.[1]
  return label === undefined
    ? allowed.has(name) && name !== 'metadata'
    : allowed.has('metadata') && label !== '__proto__'
}

/** @throws ApiException for an option that is not allowed, or that stands there twice. */
function checkNames (entries: OptionEntries, allowed: ReadonlySet<string>): void {
  const names = new Set<string>()
  for (const [name] of entries) {
    if (!isOption(name, allowed)) {
      const options = [...allowed].map(option => option === 'metadata' ? 'metadata[name]' : option)
      throw optionError(name, 'is not an option of a file. Leave it out; there are: ' +
        `${options.join(', ')}.`)
    }
    if (names.has(name)) throw optionError(name, 'was sent more than once. Send it once.')
    names.add(name)
  }
}

/** A number in digits; any other text stays one, which the schema of the field rejects. */
const numberOf = (text: string): number | string => /^\d{1,15}$/.test(text) ? Number(text) : text

function headerOf (text: string | undefined): boolean | undefined {
  const header = text === undefined ? undefined : BOOLEANS.get(text)
  if (header === undefined && text !== undefined) {
    throw optionError('header', 'must be true or false, or be left out.')
  }
  return header
}

function delimiterOf (text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const delimiter = Object.entries(DELIMITERS).find(spellings => spellings.includes(text))
  if (delimiter !== undefined) return delimiter[1]
  throw optionError('delimiter', `must be one of: ${Object.keys(DELIMITERS).join(', ')}.`)
}

function optionError (name: string, text: string): ApiException {
  const param = name.slice(0, SHOWN_CHARACTERS)
  return new ApiException({ code: 'invalid_request', param, message: `${param} ${text}` })
}
