import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import type { Command } from 'commander'
import { closeAfterAll } from '../support/close-after-all.ts'
import { isException, OPERATOR_PAGES, RUN_PAGES } from '../support/guides/exceptions.ts'
import {
  blocksOf, mentionsOf, missingIn, stepsOf, type Block, type Mention,
} from '../support/guides/guide.ts'
import { filled, startGuideEnvironment } from '../support/guides/environment.ts'
import { pages, root } from '../support/sources.ts'
import { IS_FAST } from '../support/tier.ts'
import { createFeedProgram } from '../../services/feed/send/command.ts'
import { runProgram } from '../../services/client/program.ts'
import { createAdminProgram } from '../../services/admin/program.ts'

/** Scripts that are command lines with commands of their own, and the words that select them. */
const PROGRAMS: Readonly<Record<string, readonly [Command, ...string[]]>> = {
  admin: [createAdminProgram()],
  workspace: [createAdminProgram()],
  ops: [createAdminProgram()],
  dead: [createAdminProgram(), 'dead'],
  feed: [createFeedProgram({})],
}

/** The options of `npm run submit`, by its help. */
async function readSubmitOptions (): Promise<readonly string[]> {
  const [input, output, errors] = [new PassThrough(), new PassThrough(), new PassThrough()]
  for (const words of [['--help'], ['submit', '--help']]) {
    await runProgram(words, { input, output, errors, env: {}, onInterrupt: () => {} })
  }
  return String(output.read()).match(/--[a-z-]+/g) ?? []
}
const submitOptions = await readSubmitOptions()

/**
 * The options that a command takes, those of the commands above it included; undefined for a script
 * that is no such program. Throws when it has no such command.
 */
function optionsOf ({ script, words }: Mention): readonly string[] | undefined {
  if (script === 'submit') return submitOptions
  const [program, ...first] = PROGRAMS[script] ?? []
  if (program === undefined) return undefined
  let command = program
  const options = ['--help', ...longOf(command)]
  for (const word of [...first, ...words]) {
    const next = command.commands.find(one => one.name() === word)
    if (next === undefined && command.commands.length === 0) break
    if (next === undefined) throw new Error(`${script} ${words.join(' ')}: there is no ${word}`)
    command = next
    options.push(...longOf(command))
  }
  return options
}

const longOf = ({ options }: Command) => options.flatMap(({ long }) => long ?? [])

const read = (page: string) => readFileSync(join(root, page), 'utf8')
const blocks = pages.flatMap(page => blocksOf(page, read(page)))
const runIn = (page: string) =>
  blocks.filter(block => block.page === page && !isException(block))
const runPages = RUN_PAGES.filter(page => !(IS_FAST && OPERATOR_PAGES.includes(page)))

const here = closeAfterAll(await startGuideEnvironment())

describe('a guide', () => {
  it.each(runPages)('has commands that work with the output shown: %s', async page => {
    const steps = stepsOf(runIn(page))
    const mark = '<<< step >>>'
    const script = ['set -eu', ...steps.map(({ commands }) => filled(commands, here))]
    const { environment: { baseUrl, keys }, shell } = here
    const env = { BASE: baseUrl, KEY: keys.live }
    const { status, out, errors } = await shell(script.join(`\nprintf '\\n${mark}\\n'\n`), env)
    expect({ status, errors, out }).toEqual({ status: 0, errors, out })
    const outputs = out.split(mark).slice(1)
    const missing = steps.map(({ shown }, step) => missingIn(outputs[step] ?? '', shown))
    expect({ missing, outputs }).toEqual({ missing: steps.map(() => undefined), outputs })
  })

  it('returns a file of the reader with its bytes and the results appended', async () => {
    const { folder } = here
    const [header, ...lines] = readFileSync(join(folder, 'verified.csv'), 'utf8')
      .split(/(?<!vormittags|;)\r\n/)
    expect(header).toMatch(/^\ufeffFirma;phone;Bemerkung;verified_phone;e164;country;/)
    expect(lines[0]).toMatch(/^"Müller & Söhne; Berlin";\+49 30 901820;"ruft gern an;\r\nnur vor/)
    expect(lines[0]).toContain(';+4930901820;DE;')
  })

  it('cleans a file: the valid lines of the reader remain', async () => {
    const text = readFileSync(join(here.folder, 'valid.csv'), 'utf8')
    expect(text).toMatch(/^\ufeffFirma;phone;Bemerkung;verified_phone;e164;/)
    expect(text).toContain('"Müller & Söhne; Berlin";+49 30 901820;')
    expect(text).toContain(';+12127365000;US;')
    expect(text).not.toContain('unbekannt')
  })

  it('has TypeScript samples that work', async () => {
    const samples = blocks.filter(({ language }) => language === 'ts')
    expect(samples).not.toEqual([])
    const { baseUrl, keys } = here.environment
    const { status, out, errors } = await here.shell(
      'node --input-type=module-typescript -e "$CODE"',
      { CODE: scriptOf(samples), BASE: baseUrl, KEY: keys.live })
    expect({ status, errors }).toEqual({ status: 0, errors: '' })
    expect(out).toContain('+12127365000')
  })
})

/** Samples of the client, each in a scope of its own, which can import nothing. */
function scriptOf (samples: readonly Pick<Block, 'content'>[]): string {
  return [
    `import { createClient } from '${root}/services/client/client.ts'`,
    'const { BASE: baseUrl, KEY: apiKey } = process.env',
    ...samples.map(({ content }) => `{\n${content.replace(/^import .*$/m, '')}\n}`),
  ].join('\n')
}

describe('every script that a page names', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  const mentions = pages.flatMap(page => mentionsOf(page, read(page)))

  it('has the commands and options that are named with it', async () => {
    const named = mentions.filter(({ script }) => script !== 'test')
    const lacking = await Promise.all(named.map(async mention => {
      const options = optionsOf(mention) ?? await helpOptionsOf(mention.script)
      return mention.options.filter(option => !options.includes(option))
        .map(option => `${mention.page}: ${mention.script} ${option}`)
    }))
    expect(lacking.flat()).toEqual([])
    expect(new Set(named.flatMap(({ options }) => options)).size).toBeGreaterThan(15)
  })

  const helpTexts = new Map<string, Promise<readonly string[]>>()
  /** The options that a script of one command lists for --help, which starts nothing; run once. */
  function helpOptionsOf (script: string): Promise<readonly string[]> {
    if (!mentions.some(one => one.script === script && one.options.length > 0)) {
      return Promise.resolve([])
    }
    const program = (scripts[script] ?? '').replace('sh deploy/run', 'node')
    const known = helpTexts.get(script) ??
      here.shell(`${program} --help`)
        .then(({ out, errors }) => (out + errors).match(/--\w[\w-]*/g) ?? [])
    helpTexts.set(script, known)
    return known
  }
})
