import { finished } from 'node:stream/promises'
import { Busboy, type BusboyEvents, type BusboyInstance } from '@fastify/busboy'
import { ApiException, type ApiError } from '../errors.ts'
import { SHOWN_CHARACTERS } from '../validation.ts'
import type { OptionEntries } from './read-options.ts'

export type FileForm = { readonly file: Buffer, readonly entries: OptionEntries }

/** The name of the part with the file. */
const FILE = 'file'
/** More than any valid form has; the largest field is `webhook_url`. */
const LIMITS = {
  fieldNameSize: 200, fieldSize: 8_192, fields: 100, parts: 102, headerPairs: 20, headerSize: 4_096,
}

/**
 * Reads a body of `multipart/form-data`: one part named `file`, and fields.
 * @throws ApiException if it is damaged or cut, has no file or two, or too many or too long fields.
 */
export async function readForm (body: Buffer, contentType: string): Promise<FileForm> {
  const files: Buffer[][] = []
  const entries: (readonly [string, string])[] = []
  const errors: ApiError[] = []
  const form = openForm(contentType)
  const addFile: BusboyEvents['file'] = (name, stream) => {
    const pieces: Buffer[] = []
    // A part that ends too early fails the form as well.
    stream.on('error', () => {})
    stream.on('data', (piece: Buffer) => { pieces.push(piece) })
    if (name === FILE) files.push(pieces)
    else errors.push(unexpectedFile(name))
  }
  const addField = (...[name, value, , isTruncated]: Parameters<BusboyEvents['field']>) => {
    if (isTruncated || name === FILE) errors.push(fieldError(name))
    else entries.push([name ?? '', value])
  }
  form.on('file', addFile).on('field', addField)
  for (const limit of ['partsLimit', 'fieldsLimit'] as const) {
    form.on(limit, () => { errors.push(tooManyParts()) })
  }
  form.end(body)
  await finished(form).catch(() => { throw new ApiException(DAMAGED) })
  const [error] = errors
  if (error !== undefined) throw new ApiException(error)
  const [file] = files
  if (file === undefined || files.length > 1) throw new ApiException(fileCountError(files.length))
  return { file: Buffer.concat(file), entries }
}

const DAMAGED: ApiError = {
  code: 'invalid_file',
  message: 'The body is not a complete form of multipart/form-data. Send its boundary in ' +
    'Content-Type, and all of its parts.',
}

function openForm (contentType: string): BusboyInstance {
  try {
    return new Busboy({ headers: { 'content-type': contentType }, limits: LIMITS })
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

function unexpectedFile (name: string | undefined): ApiError {
  const param = (name ?? '').slice(0, SHOWN_CHARACTERS)
  return {
    code: 'invalid_file', param, message: `The part ${param} is a file. Name the file "${FILE}".`,
  }
}

function fieldError (name: string | undefined): ApiError {
  const param = (name ?? '').slice(0, SHOWN_CHARACTERS)
  return {
    code: 'invalid_file',
    param,
    message: name === FILE
      ? 'file is a field without a file name. Send it as a file, for example: ' +
        '-F file=@contacts.csv'
      : `${param} is too long. It can have at most ${LIMITS.fieldSize.toLocaleString('en-US')} ` +
        'bytes.',
  }
}

function tooManyParts (): ApiError {
  return { code: 'invalid_file', message: `The form has more than ${LIMITS.fields} fields.` }
}
