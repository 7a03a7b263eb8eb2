import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { newFolder } from '../support/folder.ts'
import { root } from '../support/sources.ts'

const guide = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8')

type Diff = { readonly title: string, readonly path: string, readonly diff: string }

/** Every diff of CONTRIBUTING, one file each, with the title of its section. */
const DIFFS: readonly Diff[] = guide.split(/^### /m).slice(1).flatMap(section =>
  [...section.matchAll(/^```diff\n([^]*?)^```$/gm)].map(([, diff = '']) => ({
    title: section.split('\n', 1)[0] ?? '', path: /^\+\+\+ b\/(.+)$/m.exec(diff)?.[1] ?? '', diff,
  })))

/** What a derived file says of the new thing. */
const MADE: Readonly<Record<string, readonly [file: string, text: string]>> = {
  'A setting': ['deploy/docs/configuration.md', 'NORMALIZE_MAX_ROWS'],
  'A metric': ['deploy/grafana/dashboards/intake.json', 'sum by (kind) (rate(feed_answers_total['],
  'A route of the page': [
    'deploy/docs/people.md',
    '| `GET /:mode/usage/services.csv` | `usage.view` | `usage.downloaded` |',
  ],
  'A provider by description': ['deploy/compose.yaml', 'VENDOR_ACME_KEY'],
  'A column of the results': ['deploy/docs/results.md', '| `forwards` | `email-validation` |'],
  'An endpoint': ['schemas/api/openapi.json', '"operationId": "listEchoes"'],
}

let scratch: string
beforeAll(() => {
  scratch = newFolder('contributing-')
  for (const folder of ['services', 'schemas', 'deploy', 'test/support', 'test/unit/ingest']) {
    cpSync(join(root, folder), join(scratch, folder), { recursive: true })
  }
  const files = ['package.json', 'tsconfig.json', 'test/oxlint.json', 'test/eslint-rules.js']
  for (const name of [...files, ...DIFFS.map(({ path }) => path)]) {
    if (existsSync(join(root, name))) cpSync(join(root, name), join(scratch, name))
  }
  symlinkSync(join(root, 'node_modules'), join(scratch, 'node_modules'))
})

function run (command: string, args: readonly string[]): string {
  return execFileSync(command, args, { cwd: scratch, encoding: 'utf8', stdio: 'pipe' })
}

/** Groups of lines that a hunk adds, with the lines between the one before and after each. */
function readAdditions (hunk: string) {
  const lines = hunk.trimEnd().split('\n')
  if (lines.some(line => line.startsWith('-'))) throw new Error('a diff of the guide only adds')
  const runs = lines.reduce<string[][]>((all, line) => {
    const last = all.at(-1)
    if (last?.[0]?.startsWith('+') === line.startsWith('+')) last.push(line)
    else all.push([line])
    return all
  }, [])
  const textOf = (some: readonly string[] = []) =>
    some.map(line => `${line.slice(1)}\n`).join('')
  return runs.flatMap((added, at) => added[0]?.startsWith('+')
    ? [{ added: textOf(added), above: textOf(runs[at - 1]), below: textOf(runs[at + 1]) }]
    : [])
}

/**
 * Adds the lines of a diff below the lines above them, or else above those below: a change may
 * move the others.
 */
function apply ({ title, path, diff }: Diff): void {
  const file = join(scratch, path)
  let text = diff.startsWith('--- /dev/null') ? '' : readFileSync(file, 'utf8')
  const hunks = diff.split(/^@@.*\n/m).slice(1)
  for (const { added, above, below } of hunks.flatMap(readAdditions)) {
    const isOnce = (lines: string) => lines === text || text.split(lines).length === 2
    if (isOnce(above)) text = text.replace(above, () => above + added)
    else if (isOnce(below)) text = text.replace(below, () => added + below)
    else {
      throw new Error(`The diff of "${title}" for ${path} no longer applies: neither the lines ` +
        `above nor those below this addition are in the file once.\n${added}` +
        'Replace the lines without + in CONTRIBUTING.md by those that are now in the file.')
    }
  }
  writeFileSync(file, text)
}

describe('the diffs of CONTRIBUTING', () => {
  let applied = 0

  it('are those of a setting, a metric, a route, an endpoint and a provider at least', () => {
    expect(DIFFS.map(({ title }) => title)).toEqual(expect.arrayContaining(Object.keys(MADE)))
  })

  it.each(DIFFS)('apply in the order of the guide: $title, $path', diff => {
    apply(diff)
    applied++
  })

  it('reach what is generated', context => {
    if (applied < DIFFS.length) return context.skip('a diff did not apply')
    run(process.execPath, ['deploy/generate.ts'])
    for (const [title, [file, text]] of Object.entries(MADE)) {
      const isIn = (tree: string) =>
        readFileSync(join(tree, file), 'utf8').includes(text)
      expect({ title, file, inRepository: isIn(root), withTheDiff: isIn(scratch) })
        .toEqual({ title, file, inRepository: false, withTheDiff: true })
    }
  })

  it('of an endpoint add it to the changelog, and its tests pass', context => {
    if (applied < DIFFS.length) return context.skip('a diff did not apply')
    expect(readFileSync(join(scratch, 'schemas/api/CHANGELOG.md'), 'utf8'))
      .toMatch(/^- [\d-]{10}: `GET \/api\/v1\/echoes`: Echo the mode of the key and its b.*\.$/m)
    const tests = ['echoes', 'docs'].map(name => `test/unit/ingest/routes/${name}.test.ts`)
    run(join(root, 'node_modules/.bin/vitest'), ['run', '--root', scratch, ...tests])
  })

  it('have the right types', context => {
    if (applied < DIFFS.length) return context.skip('a diff did not apply')
    const touched = DIFFS.map(({ path }) => path).filter(path => /^(?!test\/e2e).*\.ts$/.test(path))
    run(join(root, 'node_modules/.bin/oxlint'),
      ['-c', 'test/oxlint.json', '--type-aware', '--type-check', ...touched])
  })
})
