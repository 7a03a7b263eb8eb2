import { mkdtempSync, rmSync, writeFileSync, readFileSync, existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import {
  openContactFile, openResultFile, type FileOptions, type WrittenResult,
} from '../../../services/client/feed-files.ts'

const folder = mkdtempSync(join(tmpdir(), 'feed-file-'))
afterAll(() => rmSync(folder, { recursive: true }))

async function contactsOf (name: string, text: string, options: Partial<FileOptions> = {}) {
  const file = join(folder, name)
  writeFileSync(file, text)
  const opened = openContactFile({ file, ...options })
  const contacts = []
  for await (const contact of opened.contacts) contacts.push(contact)
  return { contacts, read: opened.read() }
}

describe('a file of contacts', () => {
  it('can be CSV with a header', async () => {
    const text = 'id,phone,countryCode\r\nA,"(212) 736-5000",US\r\nB,+442071838750,\r\n'
    expect(await contactsOf('a.csv', text)).toEqual({
      contacts: [
        { input: '(212) 736-5000', reference: 'A', countryCode: 'US' },
        { input: '+442071838750', reference: 'B', countryCode: undefined },
      ],
      read: 1,
    })
  })

  it('can have any usual delimiter, but cannot be UTF-16', async () => {
    const { contacts } = await contactsOf('b.csv', '\ufefffirma;phone\r\n"A; B";030 1\r\n')
    expect(contacts).toEqual([{ input: '030 1', reference: undefined, countryCode: undefined }])
    await expect(contactsOf('c.csv', '\ufffe\u0000a')).rejects.toThrow('binary file')
  })

  it('can be NDJSON with one object per line', async () => {
    const text = '{"email":"a@example.com","reference":17}\n\n{"email":"b@example.com"}\n'
    const { contacts } = await contactsOf('a.ndjson', text, { referenceColumn: 'reference' })
    expect(contacts).toEqual([
      { input: 'a@example.com', reference: '17', countryCode: undefined },
      { input: 'b@example.com', reference: '', countryCode: undefined },
    ])
  })

  it('uses its only column, or the named one', async () => {
    const only = await contactsOf('b.csv', 'Telefon\n1\n')
    expect(only.contacts).toEqual([{ input: '1', reference: undefined, countryCode: undefined }])
    const named = await contactsOf('c.csv', 'a,b\n1,2\n', { column: 'b', referenceColumn: 'a' })
    expect(named.contacts).toEqual([{ input: '2', reference: '1', countryCode: undefined }])
  })

  it.each<[string, string, Partial<FileOptions>, string]>([
    ['d.csv', 'a,b\n1,2\n', {}, 'Name it with --column. The fields are: a, b'],
    ['e.csv', 'a,b\n1,2\n', { column: 'c' }, 'has no field c. The fields are: a, b'],
    ['f.csv', 'a,b\n1\n', {}, 'Cannot parse'],
    ['g.ndjson', '{"input":"1"}\n[1]\n', {}, 'line 2 is not a JSON object'],
    ['h.txt', '', {}, 'Use .csv, .ndjson or .jsonl'],
  ])('%s with %j is rejected with the reason', async (...[name, text, options, why]) => {
    await expect(contactsOf(name, text, options)).rejects.toThrow(why)
  })

  it('must exist', () => {
    expect(() => openContactFile({ file: join(folder, 'none.csv') })).toThrow('does not exist')
  })
})

describe('a file of results', () => {
  const results: readonly WrittenResult[] = [
    {
      reference: 'A',
      resultId: 'r1',
      cells: { status: 'valid', e164: '+1', checks: { syntax: 'passed' } },
    },
    { reference: 'B', resultId: 'r2', cells: { status: 'invalid', reason: 'say "no", please' } },
  ]

  it('as CSV has the columns of all results', async () => {
    const file = join(folder, 'out.csv')
    const output = openResultFile(file)
    for (const result of results) output.write(result)
    expect(existsSync(file)).toBe(false)
    await output.finish()
    expect(readFileSync(file, 'utf8')).toBe([
      'reference,resultId,status,reason,input,e164',
      'A,r1,valid,,,+1',
      'B,r2,invalid,"say ""no"", please",,',
      '',
    ].join('\r\n'))
    expect(existsSync(`${file}.part`)).toBe(false)
  })

  it('as NDJSON has the results unchanged', async () => {
    const file = join(folder, 'out.ndjson')
    const output = openResultFile(file)
    for (const result of results) output.write(result)
    await output.finish()
    const lines = readFileSync(file, 'utf8').trim().split('\n').map(line => JSON.parse(line))
    expect(lines[0]).toEqual({
      reference: 'A', resultId: 'r1', status: 'valid', e164: '+1', checks: { syntax: 'passed' },
    })
    expect(lines).toHaveLength(2)
  })

  it('has a known type, or is optional', async () => {
    expect(() => openResultFile('out.xls')).toThrow('.csv, .ndjson or .jsonl')
    await expect(openResultFile(undefined).finish()).resolves.toBeUndefined()
  })
})
