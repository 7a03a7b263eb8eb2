import { existsSync, realpathSync, rmSync } from 'node:fs'
import { counted } from './amounts.ts'
import { ApiError } from './api-error.ts'
import { CommandError, UsageError } from './command-error.ts'
import { contactColumn } from './contact-column.ts'
import { factsOf, headOf, planOf, type FileFacts } from './plan.ts'
import { wantedColumns } from './result-columns.ts'
import {
  newState, openRunStore, readState, refuseSecond, type RunOptions, type RunState, type RunStore,
} from './run-state.ts'
import {
  optionsOf, stateFileOf, unfinishedFileOf, type SubmitParts, type SubmitSettings,
} from './submit-settings.ts'

/**
 * Takes up the run that an earlier command left beside the output, or begins one. Throws UsageError
 * or CommandError, with what to do, when the file or the options are not those of that run, and
 * when there is an output already.
 */
export async function openRun (settings: SubmitSettings, parts: SubmitParts): Promise<RunStore> {
  const { input, output } = settings
  const stateFile = stateFileOf(output)
  const file = await factsOf(input, settings.delimiter)
  refuseSameFile(input, output)
  const earlier = readEarlier(settings, parts)
  if (earlier === undefined || !earlier.parts.some(({ sentAtMs }) => sentAtMs !== undefined)) {
    if (existsSync(output) && !settings.restart) {
      throw new CommandError(`${output} is there already. Give another name with -o, or begin ` +
        'anew with --restart, which replaces it and may pay again.')
    }
    const state = await begun(settings, file, parts)
    rmSync(stateFile, { force: true })
    return openRunStore(stateFile, state)
  }
  refuseChanges(earlier, file, optionsOf(settings))
  await refuseOtherAccount(earlier, settings, parts)
  const ended = earlier.parts.filter(({ end }) => end !== undefined).length
  parts.say(`Going on with the run in ${stateFile}: ${ended} of ` +
    `${counted(earlier.parts.length, 'job')} ended.`)
  return openRunStore(stateFile, { ...earlier, account: settings.account })
}

function refuseSameFile (input: string, output: string): void {
  if (existsSync(output) && realpathSync(input) === realpathSync(output)) {
    throw new UsageError('The output would replace the input. Give another name with -o.')
  }
}

function readEarlier (
  { output, restart }: SubmitSettings, { say }: SubmitParts
): RunState | undefined {
  const stateFile = stateFileOf(output)
  if (!restart) {
    const earlier = readState(stateFile)
    if (earlier !== undefined) refuseSecond(stateFile, earlier.holder)
    return earlier
  }
  const dropped = readDropped(stateFile)
  if (dropped !== undefined) {
    refuseSecond(stateFile, dropped.holder)
    const running = dropped.parts.flatMap(({ job, end }) => job && !end ? [job] : [])
    if (running.length > 0) say(`Jobs of an earlier run go on and are paid: ${running.join(', ')}`)
  }
  rmSync(stateFile, { force: true })
  rmSync(unfinishedFileOf(output), { force: true })
  return undefined
}

/** What is begun anew may have been left by any release. */
function readDropped (stateFile: string): RunState | undefined {
  try {
    return readState(stateFile)
  } catch (error) {
    if (error instanceof CommandError) return undefined
    throw error
  }
}

async function begun (
  settings: SubmitSettings, file: FileFacts, { client, say }: SubmitParts
): Promise<RunState> {
  const service = (await client.services()).find(({ slug }) => slug === settings.service)
  if (service?.configured !== true) {
    throw new UsageError(`This key may not use ${settings.service}. "verification-jobs services" ` +
      'shows those it may use.')
  }
  wantedColumns(settings.only, service.columns)
  const wish = { kind: service.inputKind, asked: settings.column }
  const head = await headOf(settings.input, file)
  const column = contactColumn(head, wish)
  if (column.guessed) say(`Contacts are taken from the column ${column.name}.`)
  if (file.encoding !== 'utf-8') say('The file is not UTF-8: taken and written as Windows-1252.')
  const { account, rowsPerJob } = settings
  const plan = await planOf(settings.input, file, { column: column.index, rowsPerJob })
  return newState({ file, options: optionsOf(settings), account }, plan)
}

function refuseChanges (earlier: RunState, file: FileFacts, options: RunOptions): void {
  const wayOut = 'Run the same command on the same file to go on, or begin anew with --restart, ' +
    'which may pay for rows a second time.'
  if (earlier.file.digest !== file.digest) {
    throw new CommandError(`The input is not the file that the run began with. ${wayOut}`)
  }
  const changed = Object.entries(options).filter(([name, value]) => earlier.options[name] !== value)
    .map(([name, value]) => `${name} was ${shown(earlier.options[name])} and is ${shown(value)}`)
  if (changed.length > 0) {
    throw new CommandError(`The unfinished run began otherwise: ${changed.join('; ')}. ${wayOut}`)
  }
}

const shown = (value = '') => value === '' ? 'not given' : value

/** A key is safe to change only within its organization and mode, which a known job can tell. */
async function refuseOtherAccount (
  earlier: RunState, { account }: SubmitSettings, { client }: SubmitParts
): Promise<void> {
  const { baseUrl, key } = earlier.account
  if (baseUrl === account.baseUrl && key === account.key) return
  const known = earlier.parts.find(({ job }) => job !== undefined)?.job
  if (known === undefined) {
    throw new CommandError('The unfinished run began with another key or base URL, and whether a ' +
      'job was made is not known. Go on with those, or begin anew with --restart.')
  }
  try {
    await client.job(known)
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error
    throw new CommandError(`The unfinished run began with another key or base URL: ${known} does ` +
      'not belong to this key. Go on with those, or begin anew with --restart.', { cause: error })
  }
}
