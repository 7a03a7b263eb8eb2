import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, describe, expect, it } from 'vitest'
import { loadConfig } from '../../../services/platform/config.ts'
import { ledgerConfig } from '../../../services/ledger/config.ts'
import { createHeadTarget } from '../../../services/ledger/head-export.ts'
import { startReceiver } from '../../support/receiver.ts'

const folder = mkdtempSync(`${tmpdir()}/verification-jobs-heads-`)
afterAll(() => rmSync(folder, { recursive: true }))
const { signal } = new AbortController()

describe('a file', () => {
  it('gets a line more each time', async () => {
    const path = `${folder}/new.ndjson`
    const target = createHeadTarget(path)
    await target('one', signal)
    await target('two', signal)
    expect(readFileSync(path, 'utf8')).toBe('one\ntwo\n')
  })

  it('of which a crash has cut the last line gets the next one in a line of its own', async () => {
    const path = `${folder}/cut.ndjson`
    writeFileSync(path, 'one\ntw')
    await createHeadTarget(path)('three', signal)
    expect(readFileSync(path, 'utf8')).toBe('one\ntw\nthree\n')
  })

  it('in a folder that does not exist is an error', async () => {
    await expect(createHeadTarget(`${folder}/none/heads`)('one', signal)).rejects.toThrow('ENOENT')
  })
})

describe('an address', () => {
  it('gets each line as JSON in a POST, and has to accept it itself', async () => {
    const answers = [200, 500, 302]
    const { port, received } = await startReceiver(response =>
      response.writeHead(answers.shift() ?? 200, { location: '/elsewhere' }).end('some words'))
    const target = createHeadTarget(`http://127.0.0.1:${port}/heads`)
    await target('{"a":1}', signal)
    expect(received[0]).toMatchObject({
      path: '/heads', body: '{"a":1}', headers: { 'content-type': 'application/json' },
    })
    await expect(target('{}', signal)).rejects
      .toThrow('JOURNAL_HEAD_TARGET responded with status 500')
    await expect(target('{}', signal)).rejects.toThrow('fetch failed')
    expect(received).toHaveLength(3)
    await expect(target('{}', AbortSignal.abort())).rejects.toThrow('aborted')
  })
})

function thrown (action: () => unknown): unknown {
  try {
    return action()
  } catch (error) {
    return error
  }
}

it('the setting takes a path or https, and plain http on this machine alone', () => {
  const isTaken = (target: string) => {
    const faults = `${thrown(() => loadConfig(ledgerConfig, { JOURNAL_HEAD_TARGET: target }))}`
    return !faults.includes('JOURNAL_HEAD_TARGET')
  }
  const targets = [
    '/mnt/heads.ndjson', 'https://heads.example.com/in', 'http://127.0.0.1:80/in',
    'http://localhost/in', 'http://heads.example.com/in', 'http://localhost.example.com/', 'heads',
    'ftp://heads', 'http://127.0.0.100/',
  ]
  expect(targets.map(isTaken)).toEqual(
    [true, true, true, true, false, false, false, false, false])
})
