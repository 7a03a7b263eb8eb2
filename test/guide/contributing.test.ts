import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, symlinkSync } from 'node:fs'
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
  'An endpoint': ['schemas/api/openapi.json', '"operationId": "listEchoes"'],
}

let scratch: string
beforeAll(() => {
  scratch = newFolder('contributing-')
  for (const folder of ['services', 'schemas', 'deploy']) {
    cpSync(join(root, folder), join(scratch, folder), { recursive: true })
  }
  const files = ['package.json', 'tsconfig.json', 'test/oxlint.json', 'test/eslint-rules.js']
  for (const name of [...files, ...DIFFS.map(({ path }) => path)]) {
    if (existsSync(join(root, name))) cpSync(join(root, name), join(scratch, name))
  }
  symlinkSync(join(root, 'node_modules'), join(scratch, 'node_modules'))
})

function run (command: string, args: readonly string[], input = ''): string {
  return execFileSync(command, args, { cwd: scratch, input, encoding: 'utf8', stdio: 'pipe' })
}

describe('the diffs of CONTRIBUTING', () => {
  it('are those of a setting, a metric, a route and an endpoint at least', () => {
    expect(DIFFS.map(({ title }) => title)).toEqual(expect.arrayContaining(Object.keys(MADE)))
  })

  it.each(DIFFS)('apply in the order of the guide: $title, $path', ({ diff }) => {
    run('git', ['apply', '--recount', '-'], diff)
  })

  it('reach what is generated', () => {
    for (const program of ['readme', 'dashboards', 'openapi']) {
      run(process.execPath, [`deploy/${program}.ts`])
    }
    for (const [title, [file, text]] of Object.entries(MADE)) {
      const isIn = (tree: string) =>
        readFileSync(join(tree, file), 'utf8').includes(text)
      expect([title, isIn(root), isIn(scratch)]).toEqual([title, false, true])
    }
  })

  it('have the right types', () => {
    const touched = DIFFS.map(({ path }) => path).filter(path => path.endsWith('.ts'))
    run(join(root, 'node_modules/.bin/oxlint'),
      ['-c', 'test/oxlint.json', '--type-aware', '--type-check', ...touched])
  })
})
