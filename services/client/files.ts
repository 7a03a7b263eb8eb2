import {
  closeSync, constants, createReadStream, existsSync, fstatSync, fsyncSync, linkSync, lstatSync,
  openSync, read, readFileSync, readlinkSync, readSync, realpathSync, renameSync, statSync,
  unlinkSync, writeFileSync, type Stats,
} from 'node:fs'
import { isAbsolute, join, relative, resolve, sep } from 'node:path'
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { isArchive, UnreadableFile } from '../../schemas/files/csv-format.ts'
import { sheetAsCsv } from '../../schemas/files/workbook.ts'
import { CommandError } from './terminal.ts'

const readBytes = promisify(read)

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = constants
/** Linux opens names below an open folder here, wherever the folder was moved meanwhile. */
const OPEN_FILES = '/proc/self/fd'
const HAS_OPEN_FILES = existsSync(OPEN_FILES)
const MAX_LINKS = 40
/** Of a workbook, whose largest sheet has a million rows. */
const MAX_INFLATED_BYTES = 1_024 * 1_024 * 1_024
const SIGNATURE_BYTES = 4

/** An open input. All reads come from the same file, also if its name gets another one. */
export class InputFile {
  /** As the user wrote it. */
  readonly path: string
  readonly #handle: number
  /** The sheet of a workbook as CSV, in place of its bytes. */
  #sheet: Buffer | undefined

  constructor (path: string, handle: number) {
    this.path = path
    this.#handle = handle
  }

  /** Whether this is a sheet of a workbook, which is read as CSV with commas. */
  get isSheet (): boolean {
    return this.#sheet !== undefined
  }

  /**
   * From now on a workbook is the CSV of one of its sheets, in memory. Throws CommandError for a
   * workbook that cannot be read, and for a name of a sheet if this is none.
   */
  async openSheet (sheet: string | undefined): Promise<void> {
    if (this.isSheet) return
    if (!isArchive(this.readStart(SIGNATURE_BYTES))) {
      if (sheet === undefined) return
      throw new CommandError(`${this.path} is no workbook (.xlsx), so it has no sheets. Leave ` +
        '--sheet out.')
    }
    try {
      const { csv } = await sheetAsCsv(this.readStart(this.size()), {
        sheet,
        maxInflatedBytes: MAX_INFLATED_BYTES,
        maxBytes: MAX_INFLATED_BYTES,
        pause: async () => {},
      })
      this.#sheet = csv
    } catch (error) {
      if (!(error instanceof UnreadableFile)) throw error
      throw new CommandError(`${error.message} Then run the command again.`, { cause: error })
    }
  }

  /** In bytes. */
  size (): number {
    return this.#sheet?.length ?? fstatSync(this.#handle).size
  }

  /** Reads at most `bytes` from the beginning. */
  readStart (bytes: number): Buffer {
    if (this.#sheet !== undefined) return this.#sheet.subarray(0, bytes)
    const buffer = Buffer.alloc(bytes)
    return buffer.subarray(0, readSync(this.#handle, buffer, 0, bytes, 0))
  }

  /** Reads at most `bytes` from a position; fewer at the end of the file. */
  async readRange (from: number, bytes: number): Promise<Buffer> {
    if (this.#sheet !== undefined) return this.#sheet.subarray(from, from + bytes)
    const { buffer, bytesRead } = await readBytes(
      this.#handle, Buffer.allocUnsafe(bytes), 0, bytes, from)
    return buffer.subarray(0, bytesRead)
  }

  /** Streams all bytes. */
  stream (): Readable {
    if (this.#sheet !== undefined) return Readable.from([this.#sheet])
    return createReadStream('', { fd: this.#handle, autoClose: false, start: 0 })
  }

  /** Whether these are the facts of this file. */
  isSame ({ dev, ino }: Stats): boolean {
    const facts = fstatSync(this.#handle)
    return facts.dev === dev && facts.ino === ino
  }

  close (): void {
    closeSync(this.#handle)
  }
}

/**
 * Opens a regular file for reading. With a `folder` (an absolute path) only a file below it, links
 * resolved. Throws CommandError with what to do; the error for a path outside the folder does not
 * depend on what exists there.
 */
export function openInput (path: string, folder?: string): InputFile {
  const real = folder === undefined ? path : resolveBelow(folder, path)
  return explainErrors(path, 'read', () => {
    const facts = folder === undefined ? statSync(real) : lstatSync(real)
    checkInput(path, facts)
    const follow = folder === undefined ? 0 : O_NOFOLLOW
    const handle = openSync(real, O_RDONLY | O_NONBLOCK | follow)
    try {
      const opened = fstatSync(handle)
      checkInput(path, opened)
      if (folder !== undefined) {
        if (opened.nlink > 1) throw hardLinkError(path, 'Copy it, and verify the copy.')
        checkPlace(handle, real, path)
      }
      return new InputFile(path, handle)
    } catch (error) {
      closeSync(handle)
      throw error
    }
  })
}

function checkInput (path: string, facts: Stats): void {
  if (facts.isFile()) return
  throw new CommandError(`${path} is not a regular file. The command reads its input more than ` +
    'once: save the data to a file.')
}

/**
 * A folder for the output of a command, open until it is closed. Names of files are single
 * components. Links are never followed: neither a file of such a name, nor a folder that was
 * exchanged after it was opened. Methods throw CommandError with what to do.
 */
export class OutputFolder {
  readonly #path: string
  readonly #real: string
  #handle: number

  /**
   * Opens an existing folder, as the user wrote its path. With `below` (an absolute path) only a
   * folder below that one, links resolved.
   */
  constructor (path: string, below?: string) {
    this.#path = path
    const missing = `Folder ${path} does not exist. Create it, or choose another output.`
    this.#real = explainErrors(path, 'open', () =>
      below === undefined ? realpathSync(path) : resolveBelow(below, path), missing)
    this.#handle = explainErrors(path, 'open', () =>
      openSync(this.#real, O_RDONLY | O_DIRECTORY | O_NOFOLLOW), missing)
    try {
      checkPlace(this.#handle, this.#real, path)
    } catch (error) {
      closeSync(this.#handle)
      throw error
    }
  }

  /** The path of a file for messages. */
  pathOf (name: string): string {
    return join(this.#path, name)
  }

  /** The facts of a file; undefined if it does not exist. */
  facts (name: string): Stats | undefined {
    return this.#do(name, 'read', path => lstatSync(path, { throwIfNoEntry: false }))
  }

  has (name: string): boolean {
    return this.facts(name) !== undefined
  }

  /** Throws unless the file does not exist, or is a regular one that may be replaced. */
  checkReplaceable (name: string): void {
    const facts = this.facts(name)
    if (facts !== undefined) checkKind(this.pathOf(name), facts)
  }

  /** Throws unless the file does not exist, or can be one that an earlier command wrote. */
  checkWritten (name: string): void {
    const facts = this.facts(name)
    if (facts !== undefined) checkWritten(this.pathOf(name), facts)
  }

  /** The text of a file that an earlier command wrote; undefined if it does not exist. */
  readText (name: string): string | undefined {
    if (!this.has(name)) return undefined
    return this.#do(name, 'read', path => {
      const handle = this.#open(name, path, O_RDONLY)
      try {
        return readFileSync(handle, 'utf8')
      } finally {
        closeSync(handle)
      }
    })
  }

  /** Creates an empty file for reading and writing in place of one of an earlier command. */
  create (name: string, mode = 0o666): number {
    this.checkWritten(name)
    this.remove(name)
    return this.#do(name, 'write', path =>
      openSync(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode))
  }

  /** Opens a file that an earlier command created, for reading and writing. */
  continue (name: string): number {
    return this.#do(name, 'write', path => this.#open(name, path, O_RDWR))
  }

  /**
   * Replaces a file atomically and durably; only its owner can read it. After a crash it has the
   * old or the new text. Synchronous, so no other code of this process runs in between.
   */
  writePrivate (name: string, text: string): void {
    const next = `${name}.new`
    this.#writeDurably(next, text)
    this.rename(next, name)
  }

  /** Creates such a file. False if it exists: of two processes only one creates it. */
  createPrivate (name: string, text: string): boolean {
    const next = `${name}.${process.pid}`
    this.#writeDurably(next, text)
    try {
      this.#do(name, 'write', path => linkSync(this.#at(next), path))
      fsyncSync(this.#handle)
      return true
    } catch (error) {
      const { cause } = error as { readonly cause?: NodeJS.ErrnoException }
      if (cause?.code !== 'EEXIST') throw error
      return false
    } finally {
      this.remove(next)
    }
  }

  /** Renames a file and syncs the folder, so that the name survives a crash of the machine. */
  rename (from: string, to: string): void {
    this.checkReplaceable(to)
    this.#do(to, 'write', path => renameSync(this.#at(from), path))
    fsyncSync(this.#handle)
  }

  /** Removes a file, or a link but not its target. */
  remove (name: string): void {
    this.#do(name, 'remove', path => {
      if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) unlinkSync(path)
    })
  }

  close (): void {
    closeSync(this.#handle)
    // The system may give the number to another folder.
    this.#handle = -1
  }

  #writeDurably (name: string, text: string): void {
    const handle = this.create(name, 0o600)
    try {
      writeFileSync(handle, text)
      fsyncSync(handle)
    } finally {
      closeSync(handle)
    }
  }

  #open (name: string, path: string, flags: number): number {
    this.checkWritten(name)
    const handle = openSync(path, flags | O_NOFOLLOW | O_NONBLOCK)
    try {
      checkWritten(this.pathOf(name), fstatSync(handle))
      return handle
    } catch (error) {
      closeSync(handle)
      throw error
    }
  }

  #at (name: string): string {
    if (HAS_OPEN_FILES) return `${OPEN_FILES}/${this.#handle}/${name}`
    checkPlace(this.#handle, this.#real, this.#path)
    return join(this.#real, name)
  }

  #do<T> (name: string, verb: string, action: (path: string) => T): T {
    return explainErrors(this.pathOf(name), verb, () => action(this.#at(name)))
  }
}

function checkKind (path: string, facts: Stats): void {
  if (facts.isFile()) return
  const kind = facts.isSymbolicLink()
    ? 'a symbolic link, which is not followed'
    : facts.isDirectory() ? 'a folder' : 'not a regular file'
  throw new CommandError(`${path} is ${kind}. Remove it, or choose another output.`)
}

/** A file that a command wrote has one name. */
function checkWritten (path: string, facts: Stats): void {
  checkKind(path, facts)
  if (facts.nlink > 1) throw hardLinkError(path, 'Remove it, or choose another output.')
}

const hardLinkError = (path: string, action: string) =>
  new CommandError(`${path} has other names as well (hard links). ${action}`)

/** Throws if the path of an open file or folder leads to another one meanwhile. */
function checkPlace (handle: number, real: string, path: string): void {
  const isSame = HAS_OPEN_FILES
    ? readlinkSync(`${OPEN_FILES}/${handle}`) === real
    : realpathSync(real) === real && statSync(real).ino === fstatSync(handle).ino
  if (!isSame) throw new CommandError(`${path} was replaced meanwhile. Run the command again.`)
}

/**
 * The real path of a file or folder below a folder, whose absolute path is trusted. Resolves links
 * step by step and never looks at anything outside the folder. Throws CommandError for a path that
 * leads out of the folder, and for one that does not exist below it.
 */
export function resolveBelow (folder: string, path: string): string {
  const root = realpathSync(folder)
  let real = root
  let links = 0
  const steps = stepsBelow([root, resolve(folder)], resolve(folder, path)) ?? outside(path)
  while (steps.length > 0) {
    const step = steps.shift() as string
    const next = join(real, step)
    const facts = step.includes('\0')
      ? undefined
      : explainErrors(path, 'read', () => readFacts(next))
    if (facts === undefined) throw new CommandError(`File ${path} does not exist.`)
    if (!facts.isSymbolicLink()) {
      real = next
      continue
    }
    links++
    if (links > MAX_LINKS) throw new CommandError(`File ${path} is a cycle of links.`)
    const target = explainErrors(path, 'read', () => readlinkSync(next))
    steps.unshift(...stepsBelow([root], resolve(real, target)) ?? outside(path))
    real = root
  }
  return real
}

/** The components of a path below one of the folders; undefined if it is outside of all. */
function stepsBelow (folders: readonly string[], path: string): string[] | undefined {
  return folders.map(folder => relative(folder, path))
    .filter(steps => steps !== '..' && !steps.startsWith(`..${sep}`) && !isAbsolute(steps))
    .map(steps => steps.split(sep).filter(step => step !== ''))[0]
}

function outside (path: string): never {
  throw new CommandError(`${path} is not below the folder of this server. Only files there can ` +
    'be verified. Copy the file, or ask the user to restart the server with another --folder.')
}

/** Undefined for a name that cannot exist, too. */
function readFacts (path: string): Stats | undefined {
  try {
    return lstatSync(path)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (['ENOENT', 'ENOTDIR', 'ENAMETOOLONG'].includes(code)) return undefined
    throw error
  }
}

/** Turns errors of the system into a CommandError with the path as the user wrote it. */
function explainErrors<T> (
  path: string, verb: string, action: () => T, missing = `File ${path} does not exist.`
): T {
  try {
    return action()
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (error instanceof CommandError || code === undefined) throw error
    const [reason = ''] = message.split(',', 1)
    throw new CommandError(code === 'ENOENT' ? missing : `Cannot ${verb} ${path}: ${reason}.`, {
      cause: error,
    })
  }
}
