import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { OutputFolder } from '../../../services/client/files.ts'
import { isLockedElsewhere, newState, openRunStore, ownLock, readState }
  from '../../../services/client/run-state.ts'
import { newFolder } from '../../support/folder.ts'

const folder = newFolder('run-')
afterAll(() => rmSync(folder, { recursive: true }))
const stateFile = join(folder, 'state.json')
const outputs = new OutputFolder(folder)

const range = { firstRow: 0, rows: 2, from: 5, to: 9 }
const state = () => newState({
  file: {
    bytes: 9,
    digest: 'd',
    encoding: 'utf-8',
    dialect: { delimiter: ',', preamble: '', startByte: 0 },
  },
  options: { '--service': 'whatsapp' },
  account: { baseUrl: 'http://there', key: 'k' },
}, {
  column: 0,
  width: 1,
  rows: 4,
  header: { from: 0, to: 5 },
  lineEnd: '\n',
  ranges: [range, { ...range, firstRow: 2 }],
})

describe('the state of a submit run', () => {
  it('is saved with every change and can be read again', () => {
    const initial = state()
    const store = openRunStore(outputs, 'state.json', initial)
    expect(readState(outputs, 'state.json')).toEqual(initial)
    expect(initial.jobs[0]).toMatchObject({
      ...range, idempotencyKey: expect.stringMatching(/^[0-9a-f-]{14}4/),
    })
    expect(initial.jobs[0]?.idempotencyKey).not.toBe(initial.jobs[1]?.idempotencyKey)
    store.updateJob(1, { sentAtMs: 17 })
    store.update({ joined: { ...initial.joined, jobs: 1 } })
    const read = readState(outputs, 'state.json')
    expect([read?.jobs.map(({ sentAtMs }) => sentAtMs), read?.joined.jobs])
      .toEqual([[undefined, 17], 1])
    expect(read).toEqual(store.state())
    store.remove()
    expect(readState(outputs, 'state.json')).toBeUndefined()
  })

  it('is rejected when damaged or written by another release', () => {
    for (const text of ['{"version":2}', '{"ver']) {
      writeFileSync(stateFile, text)
      expect(() => readState(outputs, 'state.json')).toThrow('or start over with --restart')
    }
    rmSync(stateFile)
  })

  it('cannot be opened while another process holds its lock', async () => {
    const other = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60000); console.log(1)'])
    await once(other.stdout, 'data')
    const first = state()
    const lock = { pid: other.pid ?? 0, started: started(other.pid ?? 0) }
    writeFileSync(stateFile, JSON.stringify({ ...first, lock }))
    expect(() => openRunStore(outputs, 'state.json', { ...first, lock }))
      .toThrow(`Process ${other.pid} already works on this output`)
    expect(isLockedElsewhere({ ...lock, started: 'before the machine was restarted' })).toBe(false)
    other.kill('SIGKILL')
    await once(other, 'exit')
    const store = openRunStore(outputs, 'state.json', { ...first, lock })
    expect(store.state().lock).toEqual(ownLock())
    expect(isLockedElsewhere(ownLock())).toBe(false)
    store.remove()
  })
})

/** The start time as another process would store it. */
function started (pid: number): string {
  const real = process.pid
  Object.defineProperty(process, 'pid', { value: pid })
  try {
    return ownLock().started
  } finally {
    Object.defineProperty(process, 'pid', { value: real })
  }
}

describe('a private file', () => {
  it('is readable by its owner only and replaced atomically', () => {
    const file = join(folder, 'private')
    outputs.writePrivate('private', 'long before')
    outputs.writePrivate('private', 'now')
    expect([readFileSync(file, 'utf8'), statSync(file).mode & 0o777]).toEqual(['now', 0o600])
    expect(existsSync(`${file}.new`)).toBe(false)
  })
})
