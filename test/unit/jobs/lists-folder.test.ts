import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ListsFolder, parseManifest } from '../../../services/jobs/lists-folder.ts'
import { ConfigError } from '../../../services/runtime/platform/config.ts'
import type { Log } from '../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { readEmailLists } from '../../../services/verify/providers/email-lists.ts'
import { eventually } from '../../support/eventually.ts'
import { newFolder } from '../../support/folder.ts'
import { writeLists } from '../../support/mail/lists-folder.ts'

/** The lists of a folder in a process that polls often. */
async function opened (folder = newFolder('lists-')) {
  const logged: string[] = []
  const metrics = createMetrics()
  const write = (fields: object) => { logged.push(JSON.stringify(fields)) }
  const context = {
    name: 'verify',
    log: { info: () => {}, error: write } as unknown as Log,
    metrics,
    onStop: (close: () => unknown) => { onTestFinished(() => { close() }) },
  }
  const lists = await ListsFolder.open(
    { LISTS_DIR: folder, LISTS_POLL_MS: 10 }, context, readEmailLists)
  return {
    isDisposable: (domain: string) => lists?.value.lookUp(domain).disposable,
    manifest: () => lists?.manifest,
    refused: async () => /^lists_refused\{stage="verify"\} (\d)$/m.exec(await metrics.text())?.[1],
    logged,
  }
}

describe('the lists of a folder', () => {
  it('are renewed without a restart, all of them at once', async () => {
    const folder = newFolder('lists-')
    writeLists(folder, { disposable: 'first.org', allowed: 'mailinator.com' })
    const { isDisposable, manifest, refused } = await opened(folder)
    expect(['first.org', 'second.org', 'mailinator.com', 'yopmail.com'].map(isDisposable))
      .toEqual([true, false, false, false])
    writeLists(folder, { disposable: 'second.org' }, { mode: 'extend', version: '2' })
    await eventually(() => expect(isDisposable('second.org')).toBe(true))
    expect(['first.org', 'mailinator.com', 'yopmail.com'].map(isDisposable))
      .toEqual([false, true, true])
    expect(manifest()?.lists).toMatchObject({ disposable: { version: '2' } })
    expect(await refused()).toBe('0')
  })

  it('stay as they are, with one line of the log, while a renewal is not valid', async () => {
    const folder = newFolder('lists-')
    writeLists(folder, { disposable: 'first.org' })
    const { isDisposable, refused, logged } = await opened(folder)
    writeLists(folder, { disposable: 'second.org\nno domain' }, { version: '2' })
    await eventually(async () => expect(await refused()).toBe('1'))
    writeLists(folder, { disposable: 'third.org' }, { sha256: '0'.repeat(64) })
    await eventually(() => expect(logged).toHaveLength(2))
    expect(logged[0]).toContain('disposable.txt: line 2 is no entry: ')
    expect(logged[1]).toContain('disposable.txt is not the file of lists.json: sha256 differs')
    expect(['first.org', 'second.org', 'third.org'].map(isDisposable)).toEqual([true, false, false])
    writeLists(folder, { disposable: 'fourth.org' })
    await eventually(() => expect(isDisposable('fourth.org')).toBe(true))
    expect([await refused(), logged.length]).toEqual(['0', 2])
  })

  it('are those of one version where a link is replaced, as that of a ConfigMap', async () => {
    const folder = newFolder('lists-')
    const versions = ['..1', '..2'].map(name => join(folder, name))
    const point = (version: string) => {
      symlinkSync(version, join(folder, '..next'))
      renameSync(join(folder, '..next'), join(folder, '..data'))
    }
    for (const [at, version] of versions.entries()) {
      writeLists(version, { disposable: `version${at}.org` })
    }
    point('..1')
    symlinkSync('..data/lists.json', join(folder, 'lists.json'))
    const { isDisposable } = await opened(folder)
    expect([isDisposable('version0.org'), isDisposable('version1.org')]).toEqual([true, false])
    point('..2')
    rmSync(versions[0]!, { recursive: true })
    await eventually(() => expect(isDisposable('version1.org')).toBe(true))
    expect(isDisposable('version0.org')).toBe(false)
  })

  it.each<[string, (folder: string) => void, string]>([
    ['without a manifest', folder => rmSync(join(folder, 'lists.json')), 'ENOENT'],
    ['without a file', folder => rmSync(join(folder, 'free.txt')), 'ENOENT'],
    ['with another file', folder => writeFileSync(join(folder, 'free.txt'), 'c.org'), 'differs'],
    ['with a folder as a file', folder => {
      rmSync(join(folder, 'free.txt'))
      mkdirSync(join(folder, 'free.txt'))
    }, 'free.txt is not a regular file'],
    ['with an empty list', folder => writeLists(folder, { free: '# none\n' }),
      'free.txt has no entries, and would replace all of the release'],
    ['with a large manifest',
      folder => writeFileSync(join(folder, 'lists.json'), 'x'.repeat(70_000)),
      'lists.json has 70000 bytes, at most 65536 are read'],
  ])('%s are a fault of the configuration at the start', async (_, spoil, fault) => {
    const folder = newFolder('lists-')
    writeLists(folder, { free: 'a.org\nb.org\n' })
    await opened(folder)
    spoil(folder)
    const start = opened(folder)
    await expect(start).rejects.toBeInstanceOf(ConfigError)
    await expect(start).rejects.toThrow(fault)
    await expect(start).rejects.toThrow(`npm run lists -- --to ${folder}`)
  })
})

describe('a manifest', () => {
  const list = {
    mode: 'replace', version: '1.2.3+4', publishedAt: '2026-11-01', sha256: 'a'.repeat(64),
  }
  const manifest = { renewedAt: '2026-11-28', lists: { disposable: list } }
  const parse = (value: unknown) =>
    parseManifest(JSON.stringify(value), Date.parse('2026-11-28T12:00:00Z'))

  it.each<[string, object, string]>([
    ['no lists', { ...manifest, lists: {} }, '/lists'],
    ['an unknown list', { ...manifest, lists: { disposables: list } }, '/lists'],
    ['no mode', { ...manifest, lists: { free: { ...list, mode: undefined } } }, '/lists/free'],
    ['allowed domains that replace others', { ...manifest, lists: { allowed: list } },
      '/lists/allowed/mode'],
    ['a version that is no word', { ...manifest, lists: { free: { ...list, version: '1 2' } } },
      '/lists/free/version'],
    ['a day that does not exist', { ...manifest, renewedAt: '2026-13-01' }, '2026-13-01 is not a'],
    ['a day to come', { ...manifest, lists: { free: { ...list, publishedAt: '2027-01-01' } } },
      '2027-01-01 is not a day of the past'],
  ])('with %s is refused', (_, value, fault) => {
    expect(() => parse(value)).toThrow(fault)
  })

  it('that is no JSON is refused', () => {
    expect(() => parseManifest('{"a')).toThrow('lists.json is not valid JSON')
  })
})
