import { FileOptionsSchema } from '../../../schemas/api/file.ts'
import { DELIMITERS } from '../../../schemas/files/csv-format.ts'
import { ApiException } from '../errors.ts'
import { SHOWN_CHARACTERS } from '../validation.ts'
import type { CsvReadOptions } from './read-csv.ts'

/** Names and values of options, in the order of the request. */
export type OptionEntries = readonly (readonly [name: string, value: string])[]

/** What a request with a file says beside it. */
export type FileRequest = {
  readonly csv: CsvReadOptions
  /** The fields of the equivalent JSON body without `inputs`, not validated. */
  readonly fields: Readonly<Record<string, unknown>>
}

const NAMES: ReadonlySet<string> = new Set(Object.keys(FileOptionsSchema.properties))
const LABEL = /^metadata\[(.*)\]$/s
const BOOLEANS: Readonly<Record<string, boolean>> = { true: true, false: false }

/**
 * Reads the options of a file. An empty value counts as left out, as forms send one for each field.
 * @throws ApiException for an option that is unknown, sent twice or not valid.
 */
export function readFileOptions (entries: OptionEntries): FileRequest {
  const options = new Map<string, string>()
  const labels: [string, string][] = []
  const names = new Set<string>()
  for (const [name, value] of entries) {
    const label = LABEL.exec(name)?.[1]
    if (label === undefined ? !NAMES.has(name) || name === 'metadata' : label === '__proto__') {
      throw unknownOption(name)
    }
    if (names.has(name)) throw optionError(name, 'was sent more than once. Send it once.')
    names.add(name)
    if (label !== undefined) labels.push([label, value])
    else if (value !== '') options.set(name, value)
  }
  const { column, header, delimiter, forceFresh, ...texts } = Object.fromEntries(options)
  return {
    csv: { column, header: headerOf(header), delimiter: delimiterOf(delimiter) },
    fields: {
      ...texts,
      ...forceFresh === undefined ? {} : { forceFresh: BOOLEANS[forceFresh] ?? forceFresh },
      ...labels.length === 0 ? {} : { metadata: Object.fromEntries(labels) },
    },
  }
}

function headerOf (text: string | undefined): boolean | undefined {
  const header = text === undefined ? undefined : BOOLEANS[text]
  if (header === undefined && text !== undefined) {
    throw optionError('header', 'must be true or false, or be left out.')
  }
  return header
}

function delimiterOf (text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const found = Object.entries(DELIMITERS).find(pair => pair.includes(text))
  if (found !== undefined) return found[1]
  throw optionError('delimiter', `must be one of: ${Object.keys(DELIMITERS).join(', ')}.`)
}

function unknownOption (name: string): ApiException {
  const known = [...NAMES].map(one => one === 'metadata' ? 'metadata[name]' : one)
  return optionError(name, 'is not an option of a file. Leave it out; there are: ' +
    `${known.join(', ')}.`)
}

function optionError (name: string, text: string): ApiException {
  const param = name.slice(0, SHOWN_CHARACTERS)
  return new ApiException({ code: 'invalid_request', param, message: `${param} ${text}` })
}
