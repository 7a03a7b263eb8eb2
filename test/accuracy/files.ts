import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openInput } from '../../services/client/files.ts'
import { indexOfName } from '../../services/client/plan.ts'
import { planJobs, readContacts, readFacts, readHead } from '../../services/client/plan.ts'
import { CommandError } from '../../services/client/terminal.ts'
import { ApiException } from '../../services/ingest/errors.ts'
import { readFile } from '../support/parse-upload.ts'
import { measure, type AccuracyRow } from './row.ts'

/** A file, its bytes in `text` or, where it is no text, in `base64`. */
type FileCase = {
  readonly kind: string
  readonly text?: string
  readonly base64?: string
  /** The name of the column with the contacts. */
  readonly column: string
  /** The contacts of its rows; null if the file must be rejected with what it is. */
  readonly want: readonly string[] | null
}

type Read = readonly string[] | 'rejected'

/** How files as programs write them are read: by the service, and by `submit`. */
export async function measureFiles (): Promise<readonly AccuracyRow[]> {
  const cases = readFileSync(new URL('data/files.jsonl', import.meta.url), 'utf8').trim()
    .split('\n').map(line => JSON.parse(line) as FileCase)
  const folder = mkdtempSync(join(tmpdir(), 'accuracy-files-'))
  try {
    const results: (FileCase & { readonly reads: readonly Read[] })[] = []
    for (const file of cases) {
      const bytes = Buffer.from(file.base64 ?? file.text ?? '',
        file.base64 === undefined ? 'utf8' : 'base64')
      const path = join(folder, 'contacts.csv')
      writeFileSync(path, bytes)
      const reads = [
        await resultOf(readByService(bytes, file.column)),
        await resultOf(readByClient(path, file.column)),
      ]
      results.push({ ...file, reads })
    }
    return [...Map.groupBy(results, ({ kind }) => kind)].map(([part, files]) =>
      measure({ suite: 'files', part }, files, ({ text, want, reads }) => {
        const wanted = JSON.stringify(want ?? 'rejected')
        const differing = reads.filter(read => JSON.stringify(read) !== wanted)
        if (differing.length === 0) return { is: 'right' }
        // A file that is rejected costs nothing; rows that were not meant mislead.
        const is = differing.every(read => read === 'rejected') ? 'missed' : 'wrong'
        return { is, case: `${JSON.stringify(text ?? part)}: ${JSON.stringify(reads)}` }
      }))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

async function readByService (bytes: Buffer, column: string): Promise<readonly string[]> {
  return (await readFile(bytes, { column })).inputs
}

async function readByClient (path: string, named: string): Promise<readonly string[]> {
  const file = openInput(path)
  try {
    const facts = await readFacts(file)
    const index = indexOfName((await readHead(file, facts)).header, named)
    const { ranges } = await planJobs(file, facts, { column: index })
    const jobs = await Promise.all(ranges.map(range =>
      readContacts(file, facts, { range, column: index })))
    return jobs.flat().map(String)
  } finally {
    file.close()
  }
}

async function resultOf (reading: Promise<readonly string[]>): Promise<Read> {
  try {
    return await reading
  } catch (error) {
    if (error instanceof ApiException || error instanceof CommandError) return 'rejected'
    throw error
  }
}
