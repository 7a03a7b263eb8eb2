import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { missingIn, sectionOf, stepsOf } from '../support/guide.ts'
import { startWorld, type World } from '../support/world.ts'

const root = `${import.meta.dirname}/../..`
const folder = mkdtempSync(join(tmpdir(), 'verification-jobs-guides-'))
const stackFile = join(folder, 'stack.json')

let world: World
beforeAll(async () => {
  world = await startWorld()
  writeFileSync(stackFile, JSON.stringify({ baseUrl: world.baseUrl, keys: world.keys }))
})
afterAll(async () => {
  await world.stop()
  rmSync(folder, { recursive: true })
})

const read = (path: string) => readFileSync(`${root}/${path}`, 'utf8')

/** Of that section only what needs no vendor and starts nothing. */
function firstJob (): string {
  const [page = ''] = sectionOf(read('README.md'), 'A first job').split('The whole interface')
  return page.replaceAll('./.local/stack.json', stackFile)
}

/** Runs the commands of a page one step after another in one shell. */
function outputsOf (commands: readonly string[]): readonly string[] {
  const mark = '<<< step >>>'
  const script = ['set -eu', ...commands].join(`\nprintf '\\n${mark}\\n'\n`)
  const { stdout, stderr, status } = spawnSync('sh', ['-c', script], {
    encoding: 'utf8',
    timeout: 60_000,
    env: {
      PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
      BASE: world.baseUrl,
      KEY: world.keys.live,
    },
  })
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  return stdout.split(mark).slice(1)
}

describe('what a guide tells people to type', () => {
  it.each([
    ['idempotency', () => read('deploy/docs/idempotency.md'), 2],
    ['quotes and the balance', () => read('deploy/docs/money.md'), 3],
    ['webhooks', () => read('deploy/docs/webhooks.md'), 2],
    ['the first job of the README', firstJob, 1],
  ])('works, and shows what it says: %s', (_name, page, known) => {
    const steps = stepsOf(page())
    const outputs = outputsOf(steps.map(({ commands }) => commands))
    const missing = steps.map(({ shown }, step) => missingIn(outputs[step] ?? '', shown))
    expect({ missing, outputs }).toEqual({ missing: steps.map(() => undefined), outputs })
    expect(steps.filter(({ shown }) => shown.length > 0)).toHaveLength(known)
  })
})
