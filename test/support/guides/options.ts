import { PassThrough } from 'node:stream'
import type { Command } from 'commander'
import { createFeedProgram } from '../../../services/client/feed-command.ts'
import { createClientProgram } from '../../../services/client/program.ts'
import { createAdminProgram } from '../../../services/admin/program.ts'
import type { Mention } from './guide.ts'

const streams = {
  input: new PassThrough(), output: new PassThrough(), errors: new PassThrough(),
}

/** Scripts that are command lines with commands of their own, and the words that select them. */
const PROGRAMS: Readonly<Record<string, readonly [Command, ...string[]]>> = {
  admin: [createAdminProgram()],
  workspace: [createAdminProgram()],
  ops: [createAdminProgram()],
  dead: [createAdminProgram(), 'dead'],
  feed: [createFeedProgram({})],
  submit: [createClientProgram({ ...streams, env: {}, onInterrupt: () => {} }), 'submit'],
}

/**
 * The options that a command takes, those of the commands above it included; undefined for a script
 * that is no such program. Throws when it has no such command.
 */
export function optionsOf ({ script, words }: Mention): readonly string[] | undefined {
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
