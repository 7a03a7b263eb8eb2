import { execFile } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompressSync, constants } from 'node:zlib'
import { Command } from 'commander'
import type { ReferenceData } from '../services/jobs/reference-data.ts'

const file = new URL('../services/verify/providers/range-data.br', import.meta.url)
const list = new URL('../services/jobs/reference-data.json', import.meta.url)
const script = join(import.meta.dirname, 'phone-data', 'read.py')
const MAX_OUTPUT_BYTES = 64 * 1_024 * 1_024
const run = promisify(execFile)

type Release = Pick<ReferenceData, 'version' | 'publishedAt'>

/** Installs the newest numbering plans and resolves to their release. */
async function renewPlans (): Promise<Release> {
  const options = ['--save-exact', '--ignore-scripts', '--no-audit', '--no-fund']
  await run('npm', ['install', ...options, 'libphonenumber-js@latest'])
  const { stdout } = await run('npm', ['view', 'libphonenumber-js', 'version', 'time', '--json'])
  const { version, time } = JSON.parse(stdout) as
    { readonly version: string, readonly time: Readonly<Record<string, string>> }
  return { version, publishedAt: time[version]?.slice(0, 10) ?? '' }
}

/** Writes the releases of data to the list that the API and the alert read. */
function writeReleases (releases: Readonly<Record<string, Release>>): void {
  const before = JSON.parse(readFileSync(list, 'utf8')) as readonly ReferenceData[]
  const after = before.map(data => ({ ...data, ...releases[data.name] }))
  writeFileSync(list, `${JSON.stringify(after, null, 2)}\n`)
}

/**
 * Writes the places, carriers and time zones of number ranges of a release (the newest without a
 * version) for `loadRangeData`; resolves to the release. Needs Python 3 with pip.
 */
async function renewRanges (version: string | undefined): Promise<Release> {
  const folder = mkdtempSync(join(tmpdir(), 'phone-data-'))
  try {
    const release = version === undefined ? 'phonenumbers' : `phonenumbers==${version}`
    const options = ['--no-deps', '--only-binary', ':all:', '--dest', folder]
    await run('python3', ['-m', 'pip', 'download', '--quiet', ...options, release])
    const [wheel] = globSync(join(folder, '*.whl'))
    if (wheel === undefined) throw new Error(`pip downloaded no wheel of ${release}`)
    const { stdout } = await run('python3', [script, wheel], { maxBuffer: MAX_OUTPUT_BYTES })
    const text = Buffer.from(stdout)
    writeFileSync(file, brotliCompressSync(text, {
      params: {
        [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
        [constants.BROTLI_PARAM_SIZE_HINT]: text.length,
      },
    }))
    return JSON.parse(stdout.slice(0, stdout.indexOf('\n'))) as Release
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const program = new Command('phone-data')
  .description('Renews numbering plans, places, carriers and time zones; commit the result.')
  .argument('[version]', 'release of phonenumbers on PyPI, the newest by default')
  .action(async (version?: string) => {
    const releases = {
      number_ranges: await renewRanges(version), numbering_plans: await renewPlans(),
    }
    writeReleases(releases)
    console.log(releases)
  })

await program.parseAsync()
